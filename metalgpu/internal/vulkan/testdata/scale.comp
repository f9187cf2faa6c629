#version 450
// y[i] = x[i]*k for i < n, to look at subnormal results. Compile with
//   glslangValidator -V --target-env vulkan1.1 -o scale.spv scale.comp
layout(local_size_x=64) in;
layout(std430,binding=0) readonly buffer X{float x[];};
layout(std430,binding=1) buffer Y{float y[];};
layout(push_constant) uniform P{uint n;float k;} p;
void main(){
  uint i=gl_GlobalInvocationID.x;
  if(i<p.n) y[i]=x[i]*p.k;
}
