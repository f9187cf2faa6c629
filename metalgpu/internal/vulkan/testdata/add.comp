#version 450
// y[i] += x[i] + k for i < n. Compile with
//   glslangValidator -V --target-env vulkan1.1 -o add.spv add.comp
layout(local_size_x=64) in;
layout(std430,binding=0) readonly buffer X{uint x[];};
layout(std430,binding=1) buffer Y{uint y[];};
layout(push_constant) uniform P{uint n,k;} p;
void main(){
  uint i=gl_GlobalInvocationID.x;
  if(i<p.n) y[i]=y[i]+x[i]+p.k;
}
