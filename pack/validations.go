package pack

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/hfcompress/compress/internal/strictjson"
)

// ValidationsName is a file beside the manifest that lists the devices on which
// the package was validated after it was made. It is no part of the package:
// without it only the manifest's device counts.
const ValidationsName = "validations.json"

// Validation says that a package was validated on a device after it was made.
type Validation struct {
	Device Device `json:"device"`
	// Against is "recorded" where the outputs had the bytes that were recorded when
	// the package was made, and "source" where complete outputs were compared with
	// those of the source on this device.
	Against string `json:"against"`
	// Require is the gate, "bitwise" or "tolerance".
	Require  string `json:"require"`
	Bitwise  bool   `json:"bitwise"`
	Examples int    `json:"examples"`
	Outputs  int    `json:"outputs"`
}

// validations is the file.
type validations struct {
	Schema int `json:"schema"`
	// Manifest is the digest of the package that the list is about. A list about
	// another one is worth nothing.
	Manifest string       `json:"manifest"`
	Devices  []Validation `json:"validations"`
}

const (
	maxValidations      = 1000
	maxValidationsBytes = 1 << 20
)

// parseValidations reads the file's bytes.
func parseValidations(data []byte) (*validations, error) {
	if err := strictjson.Check(data, strictjson.Options{Key: strictjson.LowerKey, NoNull: true}); err != nil {
		return nil, err
	}
	d := json.NewDecoder(bytes.NewReader(data))
	d.DisallowUnknownFields()
	var v validations
	if err := d.Decode(&v); err != nil {
		return nil, err
	}
	if v.Schema != SchemaVersion {
		return nil, fmt.Errorf("schema %d, expected %d", v.Schema, SchemaVersion)
	}
	if len(v.Devices) > maxValidations {
		return nil, fmt.Errorf("%d validations, at most %d are read", len(v.Devices), maxValidations)
	}
	for i, x := range v.Devices {
		if err := x.check(); err != nil {
			return nil, fmt.Errorf("validation %d: %w", i, err)
		}
	}
	return &v, nil
}

func (v Validation) check() error {
	switch {
	case v.Device.Name == "" || v.Device.Fingerprint == "":
		return errors.New("the device has no name or no fingerprint")
	case v.Against != "recorded" && v.Against != "source":
		return fmt.Errorf("against %q, expected recorded or source", v.Against)
	case v.Require != "bitwise" && v.Require != "tolerance":
		return fmt.Errorf("require %q, expected bitwise or tolerance", v.Require)
	case v.Examples < 1 || v.Outputs < 1:
		return fmt.Errorf("%d outputs of %d examples", v.Outputs, v.Examples)
	}
	return nil
}

// Validations lists the devices on which the package was validated after it was
// made. A list of another package gives none.
func (p *Package) Validations() ([]Validation, error) {
	path := filepath.Join(p.dir, ValidationsName)
	data, err := readLimited(path, maxValidationsBytes)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	v, err := parseValidations(data)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	if v.Manifest != p.manifest.Digest {
		return nil, nil
	}
	return v.Devices, nil
}

// AddValidation adds to [Package.Validations], or replaces what is said there of
// the same device. The file is replaced whole; on failure the old one stays.
func (p *Package) AddValidation(v Validation) (err error) {
	if err := v.check(); err != nil {
		return err
	}
	// A list that cannot be read is worth as little as one of another package.
	all, _ := p.Validations()
	all = slices.DeleteFunc(slices.Clone(all), func(x Validation) bool { return x.Device.Fingerprint == v.Device.Fingerprint })
	data, err := json.MarshalIndent(validations{SchemaVersion, p.manifest.Digest, append(all, v)}, "", "  ")
	if err != nil {
		return err
	}
	f, err := os.CreateTemp(p.dir, "."+ValidationsName+".*")
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			os.Remove(f.Name())
		}
	}()
	_, err = f.Write(append(data, '\n'))
	if err = errors.Join(err, f.Chmod(0o644), f.Sync(), f.Close()); err != nil {
		return err
	}
	return os.Rename(f.Name(), filepath.Join(p.dir, ValidationsName))
}
