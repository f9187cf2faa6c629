package kernel

import (
	"crypto/sha256"
	"embed"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
)

//go:generate go run ./gen

// spirvFiles holds a module for each kernel. The command gen makes them with
// glslang; a test keeps them in step with the sources.
//
//go:embed spirv
var spirvFiles embed.FS

// SPIRV returns the kernel as a SPIR-V 1.3 module for Vulkan 1.1 whose entry point
// is called main. Every operation of float arithmetic in it is decorated
// NoContraction. The caller may change the words.
func (k *Kernel) SPIRV() ([]uint32, error) {
	data, err := spirvFiles.ReadFile("spirv/" + k.Name + ".spv")
	if err != nil {
		return nil, fmt.Errorf("kernel %s: %w", k.Name, err)
	}
	return Words(data)
}

// Digest identifies the table: names, bindings, sources and modules.
func Digest() string {
	h := sha256.New()
	for _, k := range table {
		data, err := spirvFiles.ReadFile("spirv/" + k.Name + ".spv")
		if err != nil {
			data = nil // a new kernel, before gen has run
		}
		fmt.Fprintf(h, "%s\n%v %v %v %v\n%d\n%s%s\n", k.Name, k.Workgroup, k.Buffers, k.Push, k.Shared, len(data), k.GLSL(), k.MSL())
		h.Write(data)
	}
	return hex.EncodeToString(h.Sum(nil))
}

// ErrSPIRV is wrapped by errors about modules that are damaged, or that do what
// kernels must not do.
var ErrSPIRV = errors.New("bad SPIR-V")

// Words returns the words of a module.
func Words(data []byte) ([]uint32, error) {
	if len(data)%4 != 0 || len(data) < 20 {
		return nil, fmt.Errorf("%w: %d bytes", ErrSPIRV, len(data))
	}
	w := make([]uint32, len(data)/4)
	for i := range w {
		w[i] = binary.LittleEndian.Uint32(data[4*i:])
	}
	if w[0] != spirvMagic {
		return nil, fmt.Errorf("%w: it begins with %#x", ErrSPIRV, w[0])
	}
	return w, nil
}

const (
	spirvMagic  = 0x07230203
	spirvHeader = 5
)

// The instructions that are told apart here.
const (
	opSourceContinued = 2
	opSource          = 3
	opSourceExtension = 4
	opName            = 5
	opMemberName      = 6
	opString          = 7
	opLine            = 8
	opExtension       = 10
	opExtInstImport   = 11
	opExtInst         = 12
	opEntryPoint      = 15
	opExecutionMode   = 16
	opCapability      = 17
	opTypeFloat       = 22
	opTypePointer     = 32
	opDecorate        = 71
	opMemberDecorate  = 72
	opFNegate         = 127
	opFAdd            = 129
	opFSub            = 131
	opFMul            = 133
	opNoLine          = 317
	opModuleProcessed = 330

	decorationNoContraction = 42
)

// instruction is one instruction of a module, its first word included.
type instruction []uint32

func (i instruction) op() uint32 { return i[0] & 0xffff }

// word returns a word of the instruction, 0 behind its end.
func (i instruction) word(n int) uint32 {
	if n < len(i) {
		return i[n]
	}
	return 0
}

func makeInstruction(op uint32, operands ...uint32) instruction {
	return append(instruction{uint32(len(operands)+1)<<16 | op}, operands...)
}

// instructions cuts a module.
func instructions(words []uint32) ([]instruction, error) {
	if len(words) < spirvHeader || words[0] != spirvMagic {
		return nil, fmt.Errorf("%w: no header", ErrSPIRV)
	}
	var list []instruction
	for rest := words[spirvHeader:]; len(rest) > 0; {
		n := int(rest[0] >> 16)
		if n == 0 || n > len(rest) {
			return nil, fmt.Errorf("%w: an instruction of %d words of %d", ErrSPIRV, n, len(rest))
		}
		list = append(list, instruction(rest[:n:n]))
		rest = rest[n:]
	}
	return list, nil
}

func join(header []uint32, list []instruction) []uint32 {
	out := slices.Clone(header[:spirvHeader])
	for _, i := range list {
		out = append(out, i...)
	}
	return out
}

// floatArithmetic reports whether an instruction is arithmetic whose result a
// driver may fuse with another's unless it is decorated.
func floatArithmetic(op uint32) bool {
	return op == opFNegate || op == opFAdd || op == opFSub || op == opFMul
}

// Strict prepares a module that glslang made: names and sources go, and every operation of float arithmetic is decorated
// NoContraction.
func Strict(words []uint32) ([]uint32, error) {
	list, err := instructions(words)
	if err != nil {
		return nil, err
	}
	var out, decorations []instruction
	last := -1 // the last decoration
	for _, in := range list {
		switch op := in.op(); {
		case slices.Contains([]uint32{opSourceContinued, opSource, opSourceExtension, opName, opMemberName, opString, opLine, opNoLine, opModuleProcessed}, op):
			continue
		case floatArithmetic(op):
			if len(in) < 3 {
				return nil, fmt.Errorf("%w: arithmetic without a result", ErrSPIRV)
			}
			decorations = append(decorations, makeInstruction(opDecorate, in[2], decorationNoContraction))
		}
		out = append(out, in)
		if op := in.op(); op == opDecorate || op == opMemberDecorate {
			last = len(out)
		}
	}
	if last < 0 {
		return nil, fmt.Errorf("%w: no decorations", ErrSPIRV)
	}
	return join(words, slices.Insert(out, last, decorations...)), nil
}
