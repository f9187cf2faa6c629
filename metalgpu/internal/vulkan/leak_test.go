//go:build linux && (amd64 || arm64) && !nogpu

package vulkan

import (
	"context"
	"os"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"
	"testing"

	"github.com/hfcompress/compress/metalgpu/internal/driver"
)

// held returns the process's open files and resident bytes.
func held(t *testing.T) (files int, resident int64) {
	runtime.GC()
	debug.FreeOSMemory()
	list, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	stat, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		t.Fatal(err)
	}
	pages, err := strconv.ParseInt(strings.Fields(string(stat))[1], 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return len(list), pages * int64(os.Getpagesize())
}

// scaled shortens the leak tests where instruments make them slow.
func scaled(n int) int {
	if testing.Short() || validate() {
		return n / 20
	}
	return n
}

// TestOpenCloseLeavesNothing opens and closes a device over and over, with a
// pipeline, a buffer and a run each time. What a driver caches once is allowed
// for by a first round.
func TestOpenCloseLeavesNothing(t *testing.T) {
	index := testDevice(t)
	round := func() {
		d, err := Open(index, Options{Validation: validate(), Message: func(text string) { t.Error(text) }})
		if err != nil {
			t.Fatal(err)
		}
		d.(*device).code = testCode
		b := newBuffer(t, d, 4096, driver.Host)
		c := begin(t, d)
		c.Dispatch(pipelineOf(t, d, addKernel), [3]uint32{1, 1, 1}, []driver.Binding{{Buffer: b, Bytes: 256}, {Buffer: b, Offset: 256, Bytes: 256}}, []uint32{64, 1})
		if err := c.Run(context.Background()); err != nil {
			t.Fatal(err)
		}
		if err := d.Close(); err != nil {
			t.Fatal(err)
		}
	}
	objects := live.Load()
	rounds := scaled(1000)
	for range rounds / 4 {
		round()
	}
	files, resident := held(t)
	for range rounds - rounds/4 {
		round()
	}
	nowFiles, nowResident := held(t)
	if n := live.Load() - objects; n != 0 {
		t.Errorf("%d Vulkan objects are left", n)
	}
	if nowFiles > files {
		t.Errorf("%d open files, %d before", nowFiles, files)
	}
	t.Logf("%d rounds: resident %d, then %d bytes", rounds, resident, nowResident)
	if grown := nowResident - resident; grown > 32<<20 {
		t.Errorf("%d bytes more are resident", grown)
	}
}

func TestSubmissionsLeaveNothing(t *testing.T) {
	d := openTest(t, Options{})
	add := pipelineOf(t, d, addKernel)
	round := func() {
		b := newBuffer(t, d, 4096, driver.Host)
		c := begin(t, d)
		for range 3 {
			c.Dispatch(add, [3]uint32{1, 1, 1}, []driver.Binding{{Buffer: b, Bytes: 256}, {Buffer: b, Offset: 256, Bytes: 256}}, []uint32{64, 1})
		}
		if err := c.Run(context.Background()); err != nil {
			t.Fatal(err)
		}
		c.Close()
		b.Free()
	}
	rounds := scaled(10000)
	for range rounds / 4 {
		round()
	}
	objects := live.Load()
	files, resident := held(t)
	for range rounds - rounds/4 {
		round()
	}
	nowFiles, nowResident := held(t)
	if n := live.Load() - objects; n != 0 {
		t.Errorf("%d Vulkan objects more", n)
	}
	if nowFiles > files {
		t.Errorf("%d open files, %d before", nowFiles, files)
	}
	t.Logf("%d submissions: resident %d, then %d bytes", rounds, resident, nowResident)
	if grown := nowResident - resident; grown > 32<<20 {
		t.Errorf("%d bytes more are resident", grown)
	}
}
