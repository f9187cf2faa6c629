package llama_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/hfcompress/compress/architectures"
	"github.com/hfcompress/compress/architectures/internal/goldens"
	"github.com/hfcompress/compress/architectures/llama"
	"github.com/hfcompress/compress/architectures/nn"
)

// goldenDir holds outputs of transformers; its README says how they were made
// and what each run is for.
const goldenDir = "testdata/golden"

// demoDir is the trained model whose golden vectors are in goldenDir/demo.
const demoDir = "../../internal/demomodel/files/main"

type tensors = goldens.Tensors

func readTensors(tb testing.TB, path string) tensors { return goldens.Read(tb, path) }

func openCPU(tb testing.TB) nn.Device { return goldens.OpenCPU(tb) }

// modelDir is where the weights and configuration of a golden case lie.
func modelDir(name string) string {
	if name == "demo" {
		return demoDir
	}
	return filepath.Join(goldenDir, name)
}

// build makes the model of a golden case. changes edit its configuration.
func build(tb testing.TB, dev nn.Device, name string, changes map[string]any) *llama.Model {
	tb.Helper()
	data, err := os.ReadFile(filepath.Join(modelDir(name), "config.json"))
	if err != nil {
		tb.Fatal(err)
	}
	var fields map[string]any
	if err := json.Unmarshal(data, &fields); err != nil {
		tb.Fatal(err)
	}
	for k, v := range changes {
		fields[k] = v
	}
	if data, err = json.Marshal(fields); err != nil {
		tb.Fatal(err)
	}
	cfg, err := architectures.ParseConfig(data)
	if err != nil {
		tb.Fatal(err)
	}
	family, err := architectures.ForConfig(cfg)
	if err != nil {
		tb.Fatal(err)
	}
	blueprint, err := family.New(cfg)
	if err != nil {
		tb.Fatal(err)
	}
	m, err := blueprint.Build(dev, readTensors(tb, filepath.Join(modelDir(name), "model.safetensors")), nil)
	if err != nil {
		tb.Fatal(err)
	}
	return m.(*llama.Model)
}

// inputsOf collects a run's inputs; flags ask for what the run has.
func inputsOf(golden tensors, run string) architectures.Inputs { return goldens.Inputs(golden, run) }

func TestGoldenForward(t *testing.T) { goldens.Forward(t, goldenDir, modelDir, 25, "logits") }

func TestGoldenDecode(t *testing.T) { goldens.Decode(t, goldenDir, modelDir, 25) }

func TestGoldenGenerate(t *testing.T) { goldens.Generate(t, goldenDir, modelDir, 25) }

// first is the index of the largest value.
func first(v []float32) int { return slices.Index(v, slices.Max(v)) }
