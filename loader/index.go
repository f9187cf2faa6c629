package loader

import (
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"
)

// indexSuffix ends the names of index files.
const indexSuffix = ".safetensors.index.json"

// Index is the checked content of an index file, which says in which shard each
// tensor lies.
type Index struct {
	// TotalSize is metadata.total_size, or -1 when it is absent or not an integer.
	// It is what the writer of the index claimed; nothing depends on it.
	TotalSize int64
	// Shards lists the shards, sorted: the order of their numbers on the Hub, while
	// an index names tensors, and with them shards, in alphabetical order.
	Shards []string

	names []string         // tensor names in the index's order
	shard map[string]int32 // tensor name to position in Shards
}

// Names lists the tensors in the order of the index. It must not be changed.
func (x *Index) Names() []string { return x.names }

// Shard returns the shard in which the index places a tensor, "" when it does
// not name it.
func (x *Index) Shard(name string) string {
	if i, ok := x.shard[name]; ok {
		return x.Shards[i]
	}
	return ""
}

// ParseIndex checks the JSON text of an index file. It refuses duplicate keys,
// an empty weight_map, and shard names that are not plain names of .safetensors
// files in the index's own folder. Faults are reported as [*IndexError] without
// a file name.
func ParseIndex(text []byte, limits Limits) (*Index, error) {
	limits = limits.withDefaults()
	if int64(len(text)) > limits.IndexBytes {
		return nil, &IndexError{Problems: []string{
			fmt.Sprintf("index of %d bytes, the limit is %d", len(text), limits.IndexBytes)}, Err: ErrLimit}
	}
	p := &indexParser{scanner{b: text}, limits}
	x, err := p.parse()
	if err != nil {
		e := &IndexError{Problems: []string{err.Error()}}
		if errors.Is(err, ErrLimit) {
			e.Err = ErrLimit
		}
		return nil, e
	}
	return x, nil
}

type indexParser struct {
	scanner
	limits Limits
}

func (p *indexParser) parse() (*Index, error) {
	x := &Index{TotalSize: -1, shard: map[string]int32{}}
	hasMap := false
	err := p.object(func(key string) (err error) {
		switch key {
		case "weight_map":
			hasMap = true
			return p.weightMap(x)
		case "metadata":
			return p.metadata(x)
		}
		return p.skip() // writers add keys of their own
	})
	switch {
	case err != nil:
		return nil, err
	case !hasMap || len(x.names) == 0:
		return nil, errors.New("expected a weight_map with tensors, found none")
	}
	if err := p.finish(); err != nil {
		return nil, err
	}
	x.sortShards()
	return x, nil
}

func (x *Index) sortShards() {
	sorted := slices.Sorted(slices.Values(x.Shards))
	position := make(map[string]int32, len(sorted))
	for i, s := range sorted {
		position[s] = int32(i)
	}
	for name, i := range x.shard {
		x.shard[name] = position[x.Shards[i]]
	}
	x.Shards = sorted
}

// object reads an object of few keys, all different, and calls value at each
// value.
func (p *indexParser) object(value func(key string) error) error {
	if err := p.expect('{'); err != nil {
		return err
	}
	const most = 1000
	seen := map[string]bool{}
	for n := 0; ; n++ {
		ok, err := p.more('}', n)
		if err != nil || !ok {
			return err
		}
		key, err := p.str(p.limits.NameBytes)
		switch {
		case err != nil:
			return err
		case seen[key]:
			return p.errorf("duplicate key %s", quote(key))
		case n == most:
			return limitError{p.errorf("more than %d keys", most)}
		}
		seen[key] = true
		if err := p.expect(':'); err != nil {
			return err
		}
		if err := value(key); err != nil {
			return err
		}
	}
}

func (p *indexParser) metadata(x *Index) error {
	if p.null() {
		return nil
	}
	return p.object(func(key string) error {
		if key != "total_size" {
			return p.skip()
		}
		start := p.pos
		if v, err := p.uint(); err == nil {
			x.TotalSize = v
			return nil
		}
		p.pos = start // some writers give it as a fraction
		return p.skip()
	})
}

func (p *indexParser) weightMap(x *Index) error {
	if err := p.expect('{'); err != nil {
		return within("weight_map", err)
	}
	shards := map[string]int32{}
	for n := 0; ; n++ {
		ok, err := p.more('}', n)
		if err != nil || !ok {
			return err
		}
		name, err := p.str(p.limits.NameBytes)
		if err != nil {
			return err
		}
		if _, dup := x.shard[name]; dup {
			return p.errorf("weight_map: duplicate tensor %s", quote(name))
		}
		if n == p.limits.Tensors {
			return limitError{p.errorf("more than %d tensors", p.limits.Tensors)}
		}
		if err := p.expect(':'); err != nil {
			return err
		}
		shard, err := p.str(p.limits.NameBytes)
		if err != nil {
			return within("weight_map: tensor "+quote(name), err)
		}
		i, known := shards[shard]
		if !known {
			if err := checkShardName(shard); err != nil {
				return p.errorf("weight_map: tensor %s: %v", quote(name), err)
			}
			if len(x.Shards) == p.limits.Shards {
				return limitError{p.errorf("more than %d shards", p.limits.Shards)}
			}
			i = int32(len(x.Shards))
			shards[shard] = i
			x.Shards = append(x.Shards, shard)
		}
		x.shard[name] = i
		x.names = append(x.names, name)
	}
}

// checkShardName accepts names of one component only, by the rules of every
// platform at once, so that an index means the same everywhere.
func checkShardName(name string) error {
	if strings.ContainsAny(name, "/\\:\x00") || !filepath.IsLocal(name) || !strings.HasSuffix(name, ".safetensors") {
		return fmt.Errorf("expected the plain name of a .safetensors file, found %s", quote(name))
	}
	return nil
}

// readIndex reads and parses an index file.
func readIndex(v volume, path string, limits Limits) (*Index, error) {
	f, info, err := v.open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	path = v.show(path)
	most := limits.withDefaults().IndexBytes
	text, err := io.ReadAll(io.NewSectionReader(f, 0, min(info.Size(), most+1)))
	if err != nil {
		return nil, fmt.Errorf("reading %s: %w", path, err)
	}
	x, err := ParseIndex(text, limits)
	if e := (*IndexError)(nil); errors.As(err, &e) {
		e.File = path
	}
	return x, err
}
