package archive

// Limits bound what a [Reader] accepts. Each zero field takes the default that
// it names.
type Limits struct {
	// IndexBytes is the longest index, unpacked; 256 MiB by default.
	IndexBytes int64
	// Files is the greatest number of files; 1,000,000 by default.
	Files int
	// Tensors is the greatest number of tensors, and of stored streams, in all
	// files together; 4,000,000 by default.
	Tensors int
	// Rank is the greatest number of axes of a tensor; 16 by default.
	Rank int
	// FileBytes is the largest size of one file; 1 TiB by default.
	FileBytes int64
	// TotalBytes is the largest size of all files together; 16 TiB by default.
	TotalBytes int64
	// TensorBytes is the largest tensor that [Reader.Tensor] puts in memory; 16 GiB
	// by default.
	TensorBytes int64
	// TableBytes is the longest table of one stream: its model, and the lengths of
	// its chunks; 64 MiB by default.
	TableBytes int64
}

func (l Limits) withDefaults() Limits {
	set := func(v *int64, d int64) {
		if *v <= 0 {
			*v = d
		}
	}
	count := func(v *int, d int) {
		if *v <= 0 {
			*v = d
		}
	}
	set(&l.IndexBytes, 256<<20)
	count(&l.Files, 1_000_000)
	count(&l.Tensors, 4_000_000)
	count(&l.Rank, 16)
	set(&l.FileBytes, 1<<40)
	set(&l.TotalBytes, 16<<40)
	set(&l.TensorBytes, 16<<30)
	set(&l.TableBytes, 64<<20)
	return l
}
