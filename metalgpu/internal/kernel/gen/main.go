// Command gen compiles the kernel table: SPIR-V modules with glslang's validator,
// prepared by kernel.Strict and checked by spirv-val, and Metal sources as golden
// files. Run it in the folder of package kernel:
//
//	go generate ./metalgpu/internal/kernel
//
// The tools are Debian 12's packages glslang-tools 12.0 and spirv-tools 2023.1.
package main

import (
	"crypto/sha256"
	"encoding/binary"
	"flag"
	"fmt"
	"log"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/hfcompress/compress/metalgpu/internal/kernel"
)

func main() {
	log.SetFlags(0)
	log.SetPrefix("gen: ")
	out := flag.String("out", ".", "folder that receives spirv/ and testdata/msl/")
	flag.Parse()
	if err := run(*out); err != nil {
		log.Fatal(err)
	}
}

func run(out string) error {
	tmp, err := os.MkdirTemp("", "kernels")
	if err != nil {
		return err
	}
	defer os.RemoveAll(tmp)
	// Everything is compiled before anything is replaced.
	files := map[string][]byte{}
	var sums strings.Builder
	for _, k := range kernel.All() {
		words, err := compile(tmp, k)
		if err != nil {
			return fmt.Errorf("kernel %s: %w", k.Name, err)
		}
		data := make([]byte, 4*len(words))
		for i, w := range words {
			binary.LittleEndian.PutUint32(data[4*i:], w)
		}
		files[filepath.Join(out, "spirv", k.Name+".spv")] = data
		files[filepath.Join(out, "testdata", "msl", k.Name+".metal")] = []byte(k.MSL())
		fmt.Fprintf(&sums, "%x  %s\n", sha256.Sum256([]byte(k.GLSL())), k.Name)
	}
	files[filepath.Join(out, "spirv", "SOURCES")] = []byte(sums.String())
	for _, dir := range []string{filepath.Join(out, "spirv"), filepath.Join(out, "testdata", "msl")} {
		if err := os.RemoveAll(dir); err != nil {
			return err
		}
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return err
		}
	}
	for name, data := range files {
		if err := os.WriteFile(name, data, 0o644); err != nil {
			return err
		}
	}
	return nil
}

// compile returns the kernel's module, which spirv-val has seen.
func compile(tmp string, k *kernel.Kernel) ([]uint32, error) {
	source, module := filepath.Join(tmp, k.Name+".comp"), filepath.Join(tmp, k.Name+".spv")
	if err := os.WriteFile(source, []byte(k.GLSL()), 0o644); err != nil {
		return nil, err
	}
	if err := command("glslangValidator", "-V", "--target-env", "vulkan1.1", "-o", module, source); err != nil {
		return nil, err
	}
	data, err := os.ReadFile(module)
	if err != nil {
		return nil, err
	}
	words, err := kernel.Words(data)
	if err != nil {
		return nil, err
	}
	if words, err = kernel.Strict(words); err != nil {
		return nil, err
	}
	if _, err := kernel.Inspect(words); err != nil {
		return nil, err
	}
	data = data[:0]
	for _, w := range words {
		data = binary.LittleEndian.AppendUint32(data, w)
	}
	if err := os.WriteFile(module, data, 0o644); err != nil {
		return nil, err
	}
	if err := command("spirv-val", "--target-env", "vulkan1.1", module); err != nil {
		return nil, err
	}
	return words, nil
}

// command runs a tool; its output is the error.
func command(name string, args ...string) error {
	if out, err := exec.Command(name, args...).CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w\n%s", name, err, out)
	}
	return nil
}
