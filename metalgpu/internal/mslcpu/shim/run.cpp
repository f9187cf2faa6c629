// Runs cases: reads them from the first file and writes all buffers to the second.
// Each invocation of a workgroup is a fiber that yields at barriers.
#include <metal_stdlib>

#include <cstdio>
#include <cstdlib>
#include <functional>
#include <ucontext.h>
#include <vector>

typedef std::function<void(metal::uint3, metal::uint3, metal::uint3)> invocation;

// Made from the table: kernel number k with its buffers and push constants.
invocation kernelOf(uint k, std::vector<std::vector<uint>> &buffers, const std::vector<uint> &bind, const std::vector<uint> &push);

static ucontext_t scheduler;
static std::vector<ucontext_t> fibers;
static std::vector<bool> ended;
static int current;
static invocation body;
static metal::uint3 wid, size;

void metal::threadgroup_barrier(mem_flags::flags) { swapcontext(&fibers[current], &scheduler); }

static void fiber(int i) {
	metal::uint3 lid{i % size.x, i / size.x % size.y, i / size.x / size.y};
	body({wid.x * size.x + lid.x, wid.y * size.y + lid.y, wid.z * size.z + lid.z}, lid, wid);
	ended[i] = true;
}

static void workgroup() {
	static std::vector<std::vector<char>> stacks(256, std::vector<char>(1 << 16));
	int n = size.x * size.y * size.z;
	fibers.assign(n, {});
	ended.assign(n, false);
	for (int i = 0; i < n; i++) {
		getcontext(&fibers[i]);
		fibers[i].uc_stack.ss_sp = stacks[i].data();
		fibers[i].uc_stack.ss_size = stacks[i].size();
		fibers[i].uc_link = &scheduler;
		makecontext(&fibers[i], (void (*)())fiber, 1, i);
	}
	for (bool any = true; any;) {
		any = false;
		for (current = 0; current < n; current++) {
			if (!ended[current]) {
				swapcontext(&scheduler, &fibers[current]);
				any = true;
			}
		}
	}
}

static FILE *in, *out;

static uint number() {
	uint v;
	if (fread(&v, 4, 1, in) != 1) {
		fprintf(stderr, "the cases end too early\n");
		exit(1);
	}
	return v;
}

static std::vector<uint> numbers() {
	std::vector<uint> v(number());
	for (uint &x : v)
		x = number();
	return v;
}

int main(int argc, char **argv) {
	if (argc != 3 || !(in = fopen(argv[1], "rb")) || !(out = fopen(argv[2], "wb"))) {
		fprintf(stderr, "usage: run cases results\n");
		return 2;
	}
	for (uint cases = number(); cases > 0; cases--) {
		std::vector<std::vector<uint>> buffers(number());
		for (auto &b : buffers)
			b = numbers();
		for (uint steps = number(); steps > 0; steps--) {
			uint k = number();
			size = {number(), number(), number()};
			metal::uint3 groups = {number(), number(), number()};
			std::vector<uint> bind = numbers(), push = numbers();
			body = kernelOf(k, buffers, bind, push);
			for (wid.z = 0; wid.z < groups.z; wid.z++)
				for (wid.y = 0; wid.y < groups.y; wid.y++)
					for (wid.x = 0; wid.x < groups.x; wid.x++)
						workgroup();
		}
		for (auto &b : buffers)
			fwrite(b.data(), 4, b.size(), out);
	}
	return fclose(out) != 0;
}
