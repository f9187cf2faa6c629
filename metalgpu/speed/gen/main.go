// Command gen compiles the kernel of package speed. Run it in the package's folder
// with Debian 12's glslang-tools:
//
//	go generate ./metalgpu/speed
package main

import (
	"encoding/binary"
	"log"
	"os"
	"os/exec"
	"path/filepath"

	"github.com/hfcompress/compress/metalgpu/internal/kernel"
	"github.com/hfcompress/compress/metalgpu/speed"
)

func main() {
	log.SetFlags(0)
	if err := run(); err != nil {
		log.Fatal("gen: ", err)
	}
}

func run() error {
	tmp, err := os.MkdirTemp("", "peak")
	if err != nil {
		return err
	}
	defer os.RemoveAll(tmp)
	source, module := filepath.Join(tmp, "peak.comp"), filepath.Join(tmp, "peak.spv")
	if err := os.WriteFile(source, []byte(speed.Peak.GLSL()), 0o644); err != nil {
		return err
	}
	cmd := exec.Command("glslangValidator", "-V", "--target-env", "vulkan1.1", "-o", module, source)
	cmd.Stderr = os.Stderr
	if err := cmd.Run(); err != nil {
		return err
	}
	data, err := os.ReadFile(module)
	if err != nil {
		return err
	}
	words, err := kernel.Words(data)
	if err != nil {
		return err
	}
	if words, err = kernel.Strict(words); err != nil {
		return err
	}
	out := make([]byte, 0, 4*len(words))
	for _, w := range words {
		out = binary.LittleEndian.AppendUint32(out, w)
	}
	return os.WriteFile("peak.spv", out, 0o644)
}
