package vulkan

import (
	"encoding/binary"
	"errors"
	"slices"
)

// floatModes are the promises about float32 arithmetic that a shader asks for.
type floatModes struct {
	denormPreserve, signedZeroInfNaN, roundEven bool
}

// modes are those that the device can promise. A device that must treat all widths
// alike is asked all the same: the kernels have no other floats.
func (f *floatControls) modes() floatModes {
	return floatModes{f.denormPreserve32 != 0, f.signedZero32 != 0, f.roundEven32 != 0}
}

// SPIR-V, by its specification.
const (
	spirvMagic    = 0x07230203
	spirvHeader   = 5
	spirv14       = 0x00010400
	opExtension   = 10
	opMemoryModel = 14
	opEntryPoint  = 15
	opMode        = 16
	opCapability  = 17
)

var errSPIRV = errors.New("bad SPIR-V")

// withFloatControls returns the module with the capabilities and execution modes
// of m for its entry points (SPV_KHR_float_controls).
func withFloatControls(code []uint32, m floatModes) ([]uint32, error) {
	if len(code) < spirvHeader || code[0] != spirvMagic {
		return nil, errSPIRV
	}
	var capabilities, modes []uint32
	for _, c := range []struct {
		on               bool
		capability, mode uint32
	}{{m.denormPreserve, 4464, 4459}, {m.signedZeroInfNaN, 4466, 4461}, {m.roundEven, 4467, 4462}} {
		if c.on {
			capabilities = append(capabilities, 2<<16|opCapability, c.capability)
			modes = append(modes, c.mode)
		}
	}
	if len(modes) == 0 {
		return code, nil
	}
	out := slices.Clone(code[:spirvHeader])
	out = append(out, capabilities...)
	extension := false
	var entries []uint32
	add := func() {
		for _, e := range entries {
			for _, mode := range modes {
				out = append(out, 4<<16|opMode, e, mode, 32)
			}
		}
		entries = nil
	}
	for i := spirvHeader; i < len(code); {
		n, op := int(code[i]>>16), code[i]&0xffff
		if n == 0 || n > len(code)-i {
			return nil, errSPIRV
		}
		// The layout of a module is fixed: capabilities, extensions, imports, memory
		// model, entry points, execution modes.
		if op != opCapability && !extension {
			if code[1] < spirv14 {
				out = append(out, extensionWords("SPV_KHR_float_controls")...)
			}
			extension = true
		}
		if op == opEntryPoint && n > 2 {
			entries = append(entries, code[i+2])
		} else if op > opEntryPoint && op != opCapability {
			add()
		}
		out = append(out, code[i:i+n]...)
		i += n
	}
	return out, nil
}

// extensionWords is the instruction that declares an extension.
func extensionWords(name string) []uint32 {
	b := append([]byte(name), make([]byte, 4-len(name)%4)...)
	out := []uint32{uint32(1+len(b)/4)<<16 | opExtension}
	for i := 0; i < len(b); i += 4 {
		out = append(out, binary.LittleEndian.Uint32(b[i:]))
	}
	return out
}
