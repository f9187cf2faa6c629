package hub

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"sort"
	"strconv"
	"strings"
	"sync"
	"time"
)

const (
	minPart = 1 << 20
	maxPart = 16 << 20
	// maxJournal bounds a journal in memory: header and one line per part.
	maxJournal = 64 << 20
	// maxParts bounds a file to 32 TiB.
	maxParts      = 2 << 20
	journalFormat = 1
	// foreignIdle is how long a journal of another host must have been
	// quiet: a lock may not reach across hosts.
	foreignIdle = 2 * time.Minute

	suffixPartial = ".incomplete"
	suffixJournal = ".journal.incomplete"
	// Files of one part need no journal; the mark tells ours from Python's.
	suffixSmall = ".small.incomplete"
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// partSize is the unit of resume: what a killed download loses at most, per
// connection.
func partSize(size int64) int64 {
	p := int64(minPart)
	for p < maxPart && size/p > 256 {
		p *= 2
	}
	return p
}

// journalHeader is the first line of a journal. Everything after it is one
// line per finished part: "index crc32c check", where check is the CRC of the
// line before it, so that a torn line is seen.
type journalHeader struct {
	Format int    `json:"format"`
	Etag   string `json:"etag"`
	Size   int64  `json:"size"`
	Part   int64  `json:"part"`
	PID    int    `json:"pid"`
	Host   string `json:"host"`
}

// partial is a file under construction. The exclusive lock on it
// is held from creation to the end, so that a process that dies gives it up
// and nobody adopts what another still writes. Which parts are complete stands
// in the journal, with a checksum each: the length of a sparse file says
// nothing.
type partial struct {
	path    string
	journal string // empty for small files
	f       *os.File
	j       *os.File
	head    journalHeader

	mu    sync.Mutex
	cond  *sync.Cond
	done  []bool
	count int
	bytes int64 // in complete parts
	taken int   // how often something written was taken back
}

// spot says where a download is built and where it ends. Partials are called
// stem.<8 hex>.incomplete and lie in dir, on the volume of final.
type spot struct{ dir, stem, final string }

func newPartial(path, journal string, h journalHeader) *partial {
	p := &partial{path: path, journal: journal, head: h}
	p.cond = sync.NewCond(&p.mu)
	p.done = make([]bool, p.parts())
	return p
}

func (p *partial) parts() int {
	if p.head.Size <= 0 {
		return 0
	}
	return int((p.head.Size-1)/p.head.Part + 1)
}

// span gives the bytes [from, to) of part i.
func (p *partial) span(i int) (from, to int64) {
	from = int64(i) * p.head.Part
	return from, min(from+p.head.Part, p.head.Size)
}

// openPartial adopts what an earlier run left for the same content, or
// starts anew.
func (c *Client) openPartial(at spot, etag string, size int64) (*partial, error) {
	if size > maxParts*maxPart {
		return nil, fmt.Errorf("%d bytes are more than one file may have here", size)
	}
	h := journalHeader{Format: journalFormat, Etag: etag, Size: size, Part: partSize(size), PID: os.Getpid()}
	h.Host, _ = os.Hostname()
	if p := c.adopt(at, etag, size); p != nil {
		// From here on the journal names us.
		p.head.PID, p.head.Host = h.PID, h.Host
		return p, nil
	}
	base := filepath.Join(at.dir, at.stem+"."+randomHex(8))
	p := newPartial(base+suffixSmall, "", h)
	if size > minPart {
		p = newPartial(base+suffixPartial, base+suffixJournal, h)
	}
	var err error
	// 0666 under the umask is the mode that the finished blob shall have.
	if p.f, err = os.OpenFile(extended(p.path), os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o666); err != nil {
		return nil, err
	}
	// Where there are no locks, nobody adopts: see locksWork.
	_ = c.locks.try(p.f)
	if size > minPart {
		err = preallocate(p.f, size)
		if err == nil {
			err = p.startJournal()
		}
	}
	if err != nil {
		p.remove()
		return nil, err
	}
	return p, nil
}

// startJournal writes a journal that holds the parts done so far in memory:
// none, after creation.
func (p *partial) startJournal() error {
	f, err := os.OpenFile(extended(p.journal), os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o666)
	if err != nil {
		return err
	}
	p.j = f
	return p.writeHeader()
}

func (p *partial) writeHeader() error {
	b, err := json.Marshal(p.head)
	if err != nil {
		return err
	}
	_, err = p.j.WriteAt(append(b, '\n'), 0)
	if err == nil {
		_, err = p.j.Seek(0, io.SeekEnd)
	}
	return err
}

// mark records a complete part. The line is appended in one write; it needs
// no sync, since an adopted part is checked against its checksum.
func (p *partial) mark(i int, sum uint32) error {
	if p.j != nil {
		if _, err := p.j.WriteString(journalLine(i, sum)); err != nil {
			return err
		}
	}
	p.mu.Lock()
	p.setDone(i)
	p.mu.Unlock()
	p.cond.Broadcast()
	return nil
}

func (p *partial) setDone(i int) {
	if !p.done[i] {
		from, to := p.span(i)
		p.done[i] = true
		p.count++
		p.bytes += to - from
	}
}

func journalLine(i int, sum uint32) string {
	s := fmt.Sprintf("%d %08x", i, sum)
	return fmt.Sprintf("%s %08x\n", s, crc32.Checksum([]byte(s), castagnoli))
}

// reset forgets all parts: the server cannot continue what was begun.
func (p *partial) reset() error {
	p.mu.Lock()
	clear(p.done)
	p.count, p.bytes = 0, 0
	p.taken++
	p.mu.Unlock()
	if p.j == nil {
		return nil
	}
	if err := p.j.Truncate(0); err != nil {
		return err
	}
	return p.writeHeader()
}

// state returns the bytes in complete parts.
func (p *partial) state() (bytes int64, complete bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.bytes, p.count == len(p.done)
}

// close gives the partial up but keeps it for a later run; a small one is
// removed.
func (p *partial) close() {
	if p.journal == "" {
		p.remove()
		return
	}
	p.closeFiles()
}

func (p *partial) closeFiles() {
	if p.j != nil {
		_ = p.j.Close()
	}
	if p.f != nil {
		_ = p.f.Close() // releases the lock
	}
	p.j, p.f = nil, nil
}

// remove deletes the partial and its journal.
func (p *partial) remove() {
	_ = os.Remove(extended(p.path))
	if p.journal != "" {
		_ = os.Remove(extended(p.journal))
	}
	p.closeFiles()
	// Windows removes only closed files.
	_ = os.Remove(extended(p.path))
	if p.journal != "" {
		_ = os.Remove(extended(p.journal))
	}
}

// finish makes the verified content durable and gives it its final name.
func (p *partial) finish(blob string) error {
	if err := p.f.Sync(); err != nil {
		return err
	}
	if runtime.GOOS == "windows" {
		p.closeFiles() // only a closed file can be renamed there
	}
	// Elsewhere the lock is held until the partial has lost its name, so that
	// nobody adopts it on its way.
	err := os.Rename(extended(p.path), extended(blob))
	p.closeFiles()
	if err != nil {
		_ = os.Remove(extended(p.path))
		return err
	}
	syncDir(filepath.Dir(blob))
	if p.journal != "" {
		_ = os.Remove(extended(p.journal))
	}
	return nil
}

// adopt looks for a partial of the same content that nobody works on. On the
// way it removes what earlier runs left and no run can use.
func (c *Client) adopt(at spot, etag string, size int64) *partial {
	entries, err := os.ReadDir(extended(at.dir))
	if err != nil {
		return nil
	}
	var found *partial
	for _, e := range entries {
		base, ok := strings.CutPrefix(e.Name(), at.stem+".")
		if !ok {
			continue
		}
		path := filepath.Join(at.dir, e.Name())
		if rest, ok := strings.CutSuffix(base, suffixSmall); ok && isHex(rest, 8) {
			c.sweep(path)
			continue
		}
		id, ok := strings.CutSuffix(base, suffixJournal)
		if !ok || !isHex(id, 8) {
			continue
		}
		data := filepath.Join(at.dir, at.stem+"."+id+suffixPartial)
		p := c.tryAdopt(data, path, etag, size)
		switch {
		case p == nil:
		case found == nil:
			found = p
		case p.bytes > found.bytes:
			found.remove()
			found = p
		default:
			p.remove()
		}
	}
	return found
}

// sweep removes a small leftover that no process holds.
func (c *Client) sweep(path string) {
	f, err := os.OpenFile(extended(path), os.O_RDWR, 0)
	if err != nil {
		return
	}
	free := c.locks.try(f) == nil && c.locksWork(path)
	if free {
		_ = os.Remove(extended(path))
	}
	_ = f.Close()
	if free {
		_ = os.Remove(extended(path))
	}
}

// locksWork checks that a second lock on a locked file is refused. On some
// cluster file systems every lock succeeds and proves nothing.
func (c *Client) locksWork(path string) bool {
	f, err := os.OpenFile(extended(path), os.O_RDWR, 0)
	if err != nil {
		return false
	}
	defer f.Close()
	return errors.Is(c.locks.try(f), errLocked)
}

func (c *Client) tryAdopt(data, journal, etag string, size int64) *partial {
	f, err := os.OpenFile(extended(data), os.O_RDWR|noFollow, 0)
	if err != nil {
		if errors.Is(err, os.ErrNotExist) {
			// Its data got the final name or was removed; data is always
			// created first and removed last.
			_ = os.Remove(extended(journal))
		}
		return nil
	}
	fail := func() *partial { _ = f.Close(); return nil }
	if c.locks.try(f) != nil || !stillThere(f, data) || !c.locksWork(data) {
		return fail()
	}
	st, err := os.Stat(extended(journal))
	if err != nil {
		return fail()
	}
	b, err := readSmall(journal, maxJournal)
	if err != nil {
		return fail()
	}
	h, sums, ok := parseJournal(b)
	p := newPartialIf(ok, data, journal, h)
	if p == nil || h.Etag != etag || h.Size != size {
		// A journal cut before its first line ended holds nothing of use.
		_ = os.Remove(extended(data))
		_ = os.Remove(extended(journal))
		return fail()
	}
	host, _ := os.Hostname()
	if h.Host != host && c.now().Sub(st.ModTime()) < foreignIdle {
		return fail()
	}
	p.f = f
	if p.j, err = os.OpenFile(extended(journal), os.O_RDWR|noFollow, 0); err != nil {
		return fail()
	}
	p.verifyParts(sums)
	if err := p.rewriteJournal(sums); err != nil {
		p.closeFiles()
		return nil
	}
	return p
}

func newPartialIf(ok bool, data, journal string, h journalHeader) *partial {
	if !ok {
		return nil
	}
	return newPartial(data, journal, h)
}

// verifyParts reads back every part that the journal calls complete. A part
// that does not match its checksum is fetched again.
func (p *partial) verifyParts(sums map[int]uint32) {
	buf := make([]byte, 256<<10)
	for i, want := range sums {
		from, to := p.span(i)
		h := crc32.New(castagnoli)
		n, err := io.CopyBuffer(h, onlyReader{io.NewSectionReader(p.f, from, to-from)}, buf)
		if err == nil && n == to-from && h.Sum32() == want {
			p.setDone(i)
		} else {
			delete(sums, i)
		}
	}
}

// onlyReader hides WriteTo, which would ignore our buffer.
type onlyReader struct{ io.Reader }

// rewriteJournal leaves the header and the parts that passed.
func (p *partial) rewriteJournal(sums map[int]uint32) error {
	var b bytes.Buffer
	h, err := json.Marshal(p.head)
	if err != nil {
		return err
	}
	b.Write(append(h, '\n'))
	order := make([]int, 0, len(sums))
	for i := range sums {
		order = append(order, i)
	}
	sort.Ints(order)
	for _, i := range order {
		b.WriteString(journalLine(i, sums[i]))
	}
	if err := p.j.Truncate(0); err != nil {
		return err
	}
	if _, err := p.j.WriteAt(b.Bytes(), 0); err != nil {
		return err
	}
	_, err = p.j.Seek(0, io.SeekEnd)
	return err
}

// parseJournal reads a journal. Lines that are torn or make no sense are
// skipped: their parts count as missing.
func parseJournal(b []byte) (h journalHeader, sums map[int]uint32, ok bool) {
	line, rest, found := bytes.Cut(b, []byte("\n"))
	if !found || len(line) > 4096 || json.Unmarshal(line, &h) != nil {
		return h, nil, false
	}
	if h.Format != journalFormat || !validEtag(h.Etag) || h.Size <= minPart || h.Part < minPart || h.Part > maxPart || h.Part&(h.Part-1) != 0 {
		return h, nil, false
	}
	parts := (h.Size-1)/h.Part + 1
	if parts > maxParts {
		return h, nil, false
	}
	sums = map[int]uint32{}
	for len(rest) > 0 {
		var l []byte
		if l, rest, found = bytes.Cut(rest, []byte("\n")); !found {
			break
		}
		f := strings.Fields(string(l))
		if len(f) != 3 {
			continue
		}
		i, err1 := strconv.ParseInt(f[0], 10, 64)
		sum, err2 := strconv.ParseUint(f[1], 16, 32)
		if err1 != nil || err2 != nil || i < 0 || i >= parts || string(l)+"\n" != journalLine(int(i), uint32(sum)) {
			continue
		}
		sums[int(i)] = uint32(sum)
	}
	return h, sums, true
}

// partialBytes is how much of a blob is on disk already, for the disk-space
// check.
func (at spot) partialBytes() int64 {
	entries, err := os.ReadDir(extended(at.dir))
	if err != nil {
		return 0
	}
	var most int64
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), at.stem+".") && strings.HasSuffix(e.Name(), suffixPartial) {
			if st, err := e.Info(); err == nil {
				most = max(most, allocated(st))
			}
		}
	}
	return most
}
