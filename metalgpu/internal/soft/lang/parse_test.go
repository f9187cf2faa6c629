package lang_test

import (
	"testing"

	"github.com/hfcompress/compress/metalgpu/internal/kernel"
	"github.com/hfcompress/compress/metalgpu/internal/soft/lang"
)

func TestTableParses(t *testing.T) {
	for _, k := range kernel.All() {
		p, err := lang.Parse(k)
		if err != nil {
			t.Errorf("kernel %s: %v", k.Name, err)
			continue
		}
		if len(p.Body.List) == 0 || len(p.Buffers) != len(k.Buffers) || len(p.Constants) != len(k.Push) {
			t.Errorf("kernel %s: %d statements", k.Name, len(p.Body.List))
		}
	}
}
