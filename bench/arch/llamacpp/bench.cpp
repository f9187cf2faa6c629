// Tokens per second of llama.cpp as ../main.go measures them: prefill reads 128
// tokens in one call, decode writes 32 one after the other behind 64.
//
//     bench MODEL.gguf THREADS SECONDS
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <vector>

#include "llama.h"

static double now() {
    return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

static double fastest(double seconds, const std::function<double()> &once) {
    double best = 1e9, end = now() + seconds;
    for (int i = 0; i < 3 || now() < end; i++) best = std::min(best, once());
    return best;
}

int main(int argc, char **argv) {
    if (argc != 4) return fprintf(stderr, "usage: bench MODEL.gguf THREADS SECONDS\n"), 2;
    const int length = 128, behind = 64, steps = 32, threads = atoi(argv[2]);
    const double seconds = atof(argv[3]);
    llama_log_set([](ggml_log_level, const char *, void *) {}, nullptr);
    llama_backend_init();
    llama_model *model = llama_model_load_from_file(argv[1], llama_model_default_params());
    if (!model) return fprintf(stderr, "%s: not loaded\n", argv[1]), 1;
    llama_context_params p = llama_context_default_params();
    p.n_ctx = 256, p.n_batch = p.n_ubatch = 256, p.n_threads = p.n_threads_batch = threads;
    llama_context *ctx = llama_init_from_model(model, p);
    if (!ctx) return fprintf(stderr, "no context\n"), 1;
    std::vector<llama_token> ids(length);
    for (int i = 0; i < length; i++) ids[i] = 2 + 7 * i % 30;
    auto read = [&](int n) {
        if (llama_decode(ctx, llama_batch_get_one(ids.data(), n))) exit(1);
        llama_synchronize(ctx);
    };
    llama_memory_t memory = llama_get_memory(ctx);
    double prefill = fastest(seconds, [&] {
        llama_memory_clear(memory, true);
        double start = now();
        read(length);
        return now() - start;
    });
    double decode = fastest(seconds, [&] {
        llama_memory_clear(memory, true);
        read(behind);
        double start = now();
        for (int i = 0; i < steps; i++) read(1);
        return now() - start;
    });
    printf("prefill %.1f\ndecode %.1f\n", length / prefill, steps / decode);
}
