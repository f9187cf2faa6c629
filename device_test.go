package compress

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"testing"

	"github.com/hfcompress/compress/architectures/nn"
	"github.com/hfcompress/compress/hub"
	"github.com/hfcompress/compress/metalgpu"
)

// Device "auto" goes on to the next GPU where one does not keep the numeric
// contract or cannot be used, leaves software out, and hides no other failure.
func TestAutoDevice(t *testing.T) {
	broken, gone := errors.New("broken"), fmt.Errorf("%w: too old", metalgpu.ErrUnavailable)
	notStrict := fmt.Errorf("a GPU: %w", metalgpu.ErrNotStrict)
	for name, c := range map[string]struct {
		kinds   []string
		answers []error
		asked   []int
		opens   bool
		fails   error
	}{
		"none":                {},
		"software":            {kinds: []string{"cpu"}, answers: []error{nil}},
		"first":               {kinds: []string{"discrete", "integrated"}, answers: []error{nil, nil}, asked: []int{0}, opens: true},
		"second is strict":    {kinds: []string{"discrete", "integrated", "cpu"}, answers: []error{notStrict, nil, nil}, asked: []int{0, 1}, opens: true},
		"second is there":     {kinds: []string{"discrete", "integrated"}, answers: []error{gone, nil}, asked: []int{0, 1}, opens: true},
		"none is strict":      {kinds: []string{"discrete", "cpu"}, answers: []error{notStrict, nil}, asked: []int{0}},
		"a failure is shown":  {kinds: []string{"discrete", "integrated"}, answers: []error{broken, nil}, asked: []int{0}, fails: broken},
		"software comes last": {kinds: []string{"cpu", "virtual"}, answers: []error{nil, nil}, asked: []int{1}, opens: true},
	} {
		found := make([]metalgpu.DeviceInfo, len(c.kinds))
		for i, kind := range c.kinds {
			found[i].Kind = kind
		}
		var asked []int
		dev, err := openAuto(found, func(o metalgpu.Options) (nn.Device, error) {
			asked = append(asked, o.Index)
			if err := c.answers[o.Index]; err != nil {
				return nil, err
			}
			return nn.OpenCPU(nn.CPUOptions{Threads: 1})
		})
		if (dev != nil) != c.opens || !errors.Is(err, c.fails) || !slices.Equal(asked, c.asked) {
			t.Errorf("%s: %v, %v, asked %v", name, dev, err, asked)
		}
		if dev != nil {
			dev.Close()
		}
	}
}

// A GPU that is not there is refused before the Hub is asked for anything.
func TestMissingDeviceBeforeDownload(t *testing.T) {
	asked := 0
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked++
		http.NotFound(w, r)
	}))
	defer server.Close()
	options := func(device string) Options {
		return Options{Device: device, Hub: hub.Options{Endpoint: server.URL, CacheDir: t.TempDir()}}
	}
	for _, name := range []string{"gpu:5000", "gpu:vulkan:5000", "gpu:go:7", "gpu:teapot"} {
		if _, err := HuggingFace(context.Background(), "org/name", options(name)); !errors.Is(err, metalgpu.ErrUnavailable) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if asked != 0 {
		t.Errorf("the Hub was asked %d times", asked)
	}
	for _, name := range []string{"", "auto", "gpu:go"} {
		before := asked
		if _, err := HuggingFace(context.Background(), "org/name", options(name)); err == nil || errors.Is(err, metalgpu.ErrUnavailable) || asked == before {
			t.Errorf("%s: %v, the Hub was asked %d times", name, err, asked-before)
		}
	}
}
