package kernel

import (
	"fmt"
	"strings"
)

// GLSL returns the kernel as a compute shader for Vulkan.
func (k *Kernel) GLSL() string {
	var s source
	s.line("#version 450")
	s.line("#define F2U floatBitsToUint")
	s.line("#define U2F uintBitsToFloat")
	s.line("#define INOUT(type, name) inout type name")
	s.line("#define BARRIER() barrier()")
	s.line("#define FN")
	s.line("layout(local_size_x = %d, local_size_y = %d, local_size_z = %d) in;", k.Workgroup[0], k.Workgroup[1], k.Workgroup[2])
	for i, b := range k.Buffers {
		access := "readonly "
		if b.Writes {
			access = ""
		}
		s.line("layout(std430, binding = %d) %sbuffer B%d { %s %s[]; };", i, access, i, b.Type, b.Name)
	}
	s.line("layout(push_constant) uniform P {")
	k.constants(&s)
	s.line("} p;")
	for _, h := range k.Shared {
		s.line("shared %s %s[%d];", h.Type, h.Name, h.Elements)
	}
	s.WriteString(k.Functions)
	s.line("void main() {")
	s.line("uvec3 gid = gl_GlobalInvocationID;\nuvec3 lid = gl_LocalInvocationID;\nuvec3 wid = gl_WorkGroupID;")
	s.WriteString(k.Body)
	s.line("}")
	return s.String()
}

// MSL returns the kernel in Metal's language. Both pragmas are needed: without
// the second, every compile option lets a·b + c become one operation.
func (k *Kernel) MSL() string {
	var s source
	s.line("#include <metal_stdlib>")
	s.line("using namespace metal;")
	s.line("#pragma METAL fp math_mode(safe)")
	s.line("#pragma METAL fp contract(off)")
	s.line("#define F2U(x) as_type<uint>(x)")
	s.line("#define U2F(x) as_type<float>(x)")
	s.line("#define INOUT(type, name) thread type& name")
	s.line("#define BARRIER() threadgroup_barrier(mem_flags::mem_threadgroup)")
	s.line("#define FN static inline")
	s.line("struct P {")
	k.constants(&s)
	s.line("};")
	s.WriteString(k.Functions)
	s.line("kernel void %s(", k.Name)
	for i, b := range k.Buffers {
		access := "const "
		if b.Writes {
			access = ""
		}
		s.line("device %s%s* %s [[buffer(%d)]],", access, b.Type, b.Name, i)
	}
	s.line("constant P& p [[buffer(%d)]],", len(k.Buffers))
	s.line("uint3 gid [[thread_position_in_grid]],\nuint3 lid [[thread_position_in_threadgroup]],\nuint3 wid [[threadgroup_position_in_grid]]) {")
	for _, h := range k.Shared {
		s.line("threadgroup %s %s[%d];", h.Type, h.Name, h.Elements)
	}
	s.WriteString(k.Body)
	s.line("}")
	return s.String()
}

// constants writes the members of the push constants.
func (k *Kernel) constants(s *source) {
	for _, name := range k.Push {
		kind := "uint"
		if n, ok := strings.CutSuffix(name, ":float"); ok {
			name, kind = n, "float"
		}
		fmt.Fprintf(s, "%s %s;\n", kind, name)
	}
}
