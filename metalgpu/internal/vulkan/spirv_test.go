package vulkan

import (
	"errors"
	"os"
	"slices"
	"testing"
)

func readCode(t testing.TB) []uint32 {
	b, err := os.ReadFile("testdata/scale.spv")
	if err != nil {
		t.Fatal(err)
	}
	code := make([]uint32, len(b)/4)
	for i := range code {
		code[i] = uint32(b[4*i]) | uint32(b[4*i+1])<<8 | uint32(b[4*i+2])<<16 | uint32(b[4*i+3])<<24
	}
	return code
}

// instructions splits a module behind its header.
func instructions(t testing.TB, code []uint32) [][]uint32 {
	var out [][]uint32
	for i := spirvHeader; i < len(code); {
		n := int(code[i] >> 16)
		if n == 0 || n > len(code)-i {
			t.Fatalf("the instruction at word %d has %d words", i, n)
		}
		out = append(out, code[i:i+n])
		i += n
	}
	return out
}

func TestWithFloatControls(t *testing.T) {
	code := readCode(t)
	same, err := withFloatControls(code, floatModes{})
	if err != nil || !slices.Equal(same, code) {
		t.Fatalf("no modes change the module: %v", err)
	}
	got, err := withFloatControls(code, floatModes{true, true, true})
	if err != nil {
		t.Fatal(err)
	}
	var added [][]uint32
	old := instructions(t, code)
	for _, ins := range instructions(t, got) {
		if len(old) > 0 && slices.Equal(ins, old[0]) {
			old = old[1:]
			continue
		}
		added = append(added, ins)
	}
	if len(old) > 0 {
		t.Fatalf("%d instructions were lost", len(old))
	}
	entry := uint32(0)
	for _, ins := range instructions(t, code) {
		if ins[0]&0xffff == opEntryPoint {
			entry = ins[2]
		}
	}
	want := [][]uint32{
		{2<<16 | 17, 4464}, {2<<16 | 17, 4466}, {2<<16 | 17, 4467},
		{7<<16 | 10, 0x5f565053, 0x5f52484b, 0x616f6c66, 0x6f635f74, 0x6f72746e, 0x0000736c},
		{4<<16 | 16, entry, 4459, 32}, {4<<16 | 16, entry, 4461, 32}, {4<<16 | 16, entry, 4462, 32},
	}
	if !slices.EqualFunc(added, want, func(a, b []uint32) bool { return slices.Equal(a, b) }) {
		t.Errorf("added %x, want %x", added, want)
	}
	newer := slices.Clone(code)
	newer[1] = spirv14
	got, err = withFloatControls(newer, floatModes{denormPreserve: true})
	if err != nil || len(got) != len(code)+2+4 {
		t.Errorf("SPIR-V 1.4: %d words more, %v", len(got)-len(code), err)
	}
}

func FuzzWithFloatControls(f *testing.F) {
	code := readCode(f)
	b := make([]byte, 0, 4*len(code))
	for _, w := range code {
		b = append(b, byte(w), byte(w>>8), byte(w>>16), byte(w>>24))
	}
	f.Add(b)
	f.Add(b[:40])
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, b []byte) {
		code := make([]uint32, len(b)/4)
		for i := range code {
			code[i] = uint32(b[4*i]) | uint32(b[4*i+1])<<8 | uint32(b[4*i+2])<<16 | uint32(b[4*i+3])<<24
		}
		got, err := withFloatControls(code, floatModes{true, true, true})
		if err != nil {
			if !errors.Is(err, errSPIRV) {
				t.Errorf("an error of another kind: %v", err)
			}
			return
		}
		instructions(t, got)
	})
}
