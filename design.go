package compress

import (
	"errors"
	"fmt"
	"io/fs"

	"github.com/hfcompress/compress/architectures"
	"github.com/hfcompress/compress/architectures/declared"
	"github.com/hfcompress/compress/loader"
	"github.com/hfcompress/compress/tensor"
)

// design says what a model computes: by a registered family and its
// configuration, or by an architecture file.
type design struct {
	// arch is the family's name, or [declared.Architecture].
	arch string
	// config is the configuration; its Raw is nil when there is none, which only an
	// architecture file makes up for.
	config architectures.Config
	// archFile is the architecture file, nil without one.
	archFile []byte
	plan     architectures.Blueprint
}

// readDesign reads a configuration, or the reason why there is none, and finds
// the family that name asks for or that the configuration describes. An
// architecture file takes the family's place.
func readDesign(name string, archFile, config []byte, configErr error, shown string) (*design, error) {
	d := &design{archFile: archFile}
	if configErr != nil && (archFile == nil || !errors.Is(configErr, fs.ErrNotExist)) {
		return nil, configErr
	}
	if configErr == nil {
		var err error
		if d.config, err = architectures.ParseConfig(config); err != nil {
			return nil, fmt.Errorf("%s: %w", shown, err)
		}
	}
	if archFile != nil {
		plan, err := declared.Parse(archFile)
		if err != nil {
			return nil, err
		}
		d.arch, d.plan = declared.Architecture, plan
		return d, nil
	}
	family, err := chooseFamily(name, d.config)
	if err != nil {
		return nil, err
	}
	d.arch = family.Name()
	if d.plan, err = family.New(d.config); err != nil {
		return nil, fmt.Errorf("%s: %w", shown, err)
	}
	return d, nil
}

// bind chooses the set of names that a checkpoint uses, where the family has
// several, and enters what an architecture file keeps and ignores of it.
func (d *design) bind(c *loader.Checkpoint) error {
	d.plan = architectures.ForNames(d.plan, c.Names())
	plan, ok := d.plan.(*declared.Blueprint)
	if !ok {
		return nil
	}
	var tensors []loader.TensorInfo
	for _, name := range c.Names() {
		info, err := c.Info(name)
		if err != nil {
			return err
		}
		tensors = append(tensors, info)
	}
	bound, err := plan.Bind(tensors)
	if err != nil {
		return err
	}
	d.plan = bound
	return nil
}

// check compares names, shapes and types of a checkpoint with what the plan
// expects; no value is read.
func (d *design) check(c *loader.Checkpoint) error {
	if err := d.bind(c); err != nil {
		return err
	}
	_, err := loader.Strict(c, d.plan.Params(), loader.Policy{NonFinite: loader.AllowNonFinite})
	return err
}

// dtype is how a checkpoint stores a parameter.
func dtypeIn(c *loader.Checkpoint) func(loader.Param) tensor.DType {
	return func(p loader.Param) tensor.DType {
		if info, err := c.Info(p.Name); err == nil {
			return info.DType
		}
		if len(p.DTypes) > 0 {
			return p.DTypes[0]
		}
		return tensor.F32
	}
}

func chooseFamily(name string, cfg architectures.Config) (architectures.Family, error) {
	if name != "" {
		return architectures.Lookup(name)
	}
	return architectures.ForConfig(cfg)
}

// readArchFile reads the file that the options name, nil when they name none.
func (o Options) readArchFile() ([]byte, error) {
	if o.ArchFile == "" {
		return nil, nil
	}
	_, text, err := declared.ReadFile(o.ArchFile)
	return text, err
}
