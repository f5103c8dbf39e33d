package postgres

import (
	"sync"

	"github.com/holdfast-dev/holdfast/store"
)

// A snapshot is the head of one version. The versions after it are folded from
// it and the changes since; so it is derived, and may be written late. It is
// due when folding would cost more than a part of what reading it does:
const (
	// when so many bytes of changes, or a quarter of its own length, are to be
	// folded,
	foldBytes = 32 << 10

	// or so many versions: the fewer, the smaller it is.
	foldVersionsMin = 32
	foldVersionsMax = 160
	bytesPerVersion = 512

	// foldVersionsLimit is where a version without a snapshot is not admitted:
	// every version is folded from fewer than so many others.
	foldVersionsLimit = 200
)

// fold is what lies between the newest snapshot and the newest version.
type fold struct {
	snapVersion int64
	snapBytes   int64
	unfolded    int64 // bytes
}

// due reports whether the next version should have a snapshot.
func (f fold) due(version int64) bool {
	most := min(max(f.snapBytes/bytesPerVersion, foldVersionsMin), foldVersionsMax)
	return f.unfolded >= max(foldBytes, f.snapBytes/4) || version-f.snapVersion >= most
}

// dues are the sessions whose next version, if it is saved here, gets a
// snapshot. What is forgotten is found due again after the next save.
type dues struct {
	mu   sync.Mutex
	refs map[store.Ref]bool // guarded by mu
}

// maxDues bounds what is remembered of sessions that may never be saved again.
const maxDues = 10_000

func (d *dues) set(r store.Ref, due bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if !due {
		delete(d.refs, r)
		return
	}
	if d.refs == nil || len(d.refs) >= maxDues {
		d.refs = map[store.Ref]bool{}
	}
	d.refs[r] = true
}

func (d *dues) has(r store.Ref) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.refs[r]
}
