package metal

import (
	"fmt"

	"github.com/hfcompress/compress/metalgpu/internal/driver"
)

// Families of GPUs that Metal names by numbers (MTLGPUFamily), newest first.
var families = []struct {
	number uintptr
	name   string
}{{5002, "Metal 4"}, {5001, "Metal 3"}, {2002, "Mac 2"}, {2001, "Mac 1"}}

// maxWorkgroup is the number of threads of a group that every GPU of a Mac has
// (Metal feature set tables). A pipeline may have less; that is checked for each.
const maxWorkgroup = 1024

// devices describes the system's GPUs in Metal's order.
func devices(m messenger) ([]driver.Info, error) {
	ids, err := m.devices()
	if err != nil {
		return nil, fmt.Errorf("metal: %w: %w", driver.ErrUnavailable, err)
	}
	infos := make([]driver.Info, len(ids))
	m.pool(func() {
		for i, d := range ids {
			infos[i] = describe(m, d, i)
			m.send(d, "release")
		}
	})
	return infos, nil
}

func describe(m messenger, d id, index int) driver.Info {
	info := driver.Info{
		API:    "metal",
		Index:  index,
		Name:   m.text(id(m.send(d, "name"))),
		Kind:   "discrete",
		Vendor: "Apple",
		// Metal's compiler and driver are parts of the system.
		DriverName:    "macOS",
		DriverVersion: m.text(id(m.send(id(m.send(m.class("NSProcessInfo"), "processInfo")), "operatingSystemVersionString"))),
		Limits: driver.Limits{
			MemoryBytes:          int64(m.send(d, "recommendedMaxWorkingSetSize")),
			MaxBufferBytes:       int64(m.send(d, "maxBufferLength")),
			MaxWorkgroupSize:     maxWorkgroup,
			MaxWorkgroups:        [3]uint32{1<<31 - 1, 1<<31 - 1, 1<<31 - 1},
			SharedMemoryBytes:    int64(m.send(d, "maxThreadgroupMemoryLength")),
			BufferOffsetMultiple: 256,
		},
	}
	if truth(m.send(d, "hasUnifiedMemory")) {
		info.Kind = "integrated"
	}
	for _, f := range families {
		if truth(m.send(d, "supportsFamily:", f.number)) {
			info.APIVersion = f.name
			break
		}
	}
	return info
}
