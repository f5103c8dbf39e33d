package postgres

import (
	"sync"

	"github.com/holdfast-dev/holdfast/store"
)

// A snapshot is the head of one version. Later versions are folded from it and
// the changes since, so it may be written late. The next one is due when there
// is enough to fold:
const (
	// this many bytes of changes, or a quarter of the snapshot's own length,
	foldBytes = 32 << 10

	// or one version for each 512 bytes of the snapshot, within these bounds.
	foldVersionsMin = 32
	foldVersionsMax = 160
	bytesPerVersion = 512

	// A version is not admitted without a snapshot if this many were folded.
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

// snapshotsDue are the sessions whose next version, if it is saved here, gets a
// snapshot. A session that is missing here is found due again after the next
// save.
type snapshotsDue struct {
	mu   sync.Mutex
	refs map[store.Ref]bool // guarded by mu
}

// maxSnapshotsDue bounds the set, because some sessions are never saved again.
const maxSnapshotsDue = 10_000

func (d *snapshotsDue) set(r store.Ref, due bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if !due {
		delete(d.refs, r)
		return
	}
	if d.refs == nil || len(d.refs) >= maxSnapshotsDue {
		d.refs = map[store.Ref]bool{}
	}
	d.refs[r] = true
}

func (d *snapshotsDue) has(r store.Ref) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.refs[r]
}
