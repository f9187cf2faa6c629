package architectures

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sort"
	"strings"
	"sync"

	"github.com/hfcompress/compress/internal/strictjson"
)

// ErrUnknown is wrapped by errors about an architecture that is not registered.
var ErrUnknown = errors.New("unknown architecture")

var (
	mu       sync.RWMutex
	families = map[string]Family{}
)

// Register makes a family available. It panics on an empty or a taken name, as
// only a programming error can cause it.
func Register(f Family) {
	mu.Lock()
	defer mu.Unlock()
	name := f.Name()
	if name == "" {
		panic("architectures: Register with an empty name")
	}
	if _, taken := families[name]; taken {
		panic("architectures: Register called twice for " + name)
	}
	families[name] = f
}

// Names returns the registered names in order.
func Names() []string {
	mu.RLock()
	defer mu.RUnlock()
	names := make([]string, 0, len(families))
	for name := range families {
		names = append(names, name)
	}
	sort.Strings(names)
	return names
}

// Lookup returns the family registered under name. The error wraps
// [ErrUnknown] and lists what there is.
func Lookup(name string) (Family, error) {
	mu.RLock()
	f, ok := families[name]
	mu.RUnlock()
	if !ok {
		return nil, fmt.Errorf("%w %q; registered: %s", ErrUnknown, name, strings.Join(Names(), ", "))
	}
	return f, nil
}

// ForConfig returns the one family that matches cfg. No match, or more than
// one, gives an error that wraps [ErrUnknown].
func ForConfig(cfg Config) (Family, error) {
	var found []Family
	for _, name := range Names() {
		f, err := Lookup(name)
		if err != nil {
			return nil, err
		}
		if f.Matches(cfg) {
			found = append(found, f)
		}
	}
	switch len(found) {
	case 1:
		return found[0], nil
	case 0:
		return nil, fmt.Errorf("%w: config.json has model_type %q and architectures %q; registered: %s",
			ErrUnknown, cfg.ModelType, cfg.Architectures, strings.Join(Names(), ", "))
	}
	names := make([]string, len(found))
	for i, f := range found {
		names[i] = f.Name()
	}
	return nil, fmt.Errorf("%w: config.json matches %s; name one", ErrUnknown, strings.Join(names, ", "))
}

// Config is a model's config.json.
type Config struct {
	ModelType     string   `json:"model_type"`
	Architectures []string `json:"architectures"`
	// Raw is the whole file.
	Raw json.RawMessage `json:"-"`
}

// maxConfigBytes bounds config.json; real ones are a few kilobytes.
const maxConfigBytes = 16 << 20

// ParseConfig reads a config.json. It must be one JSON object without repeated
// keys.
func ParseConfig(data []byte) (Config, error) {
	if len(data) > maxConfigBytes {
		return Config{}, fmt.Errorf("config.json has %d bytes, the limit is %d", len(data), maxConfigBytes)
	}
	cfg := Config{Raw: slices.Clone(data)}
	if trimmed := bytes.TrimSpace(data); len(trimmed) == 0 || trimmed[0] != '{' {
		return Config{}, errors.New("config.json is not a JSON object")
	}
	if err := strictjson.Check(data, strictjson.Options{}); err != nil {
		return Config{}, fmt.Errorf("config.json: %w", err)
	}
	if err := json.Unmarshal(data, &cfg); err != nil {
		return Config{}, fmt.Errorf("config.json: %w", err)
	}
	return cfg, nil
}
