package inmem

import (
	"hash/crc32"
	"slices"
	"time"

	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/store"
	"github.com/holdfast-dev/holdfast/store/admission"
)

// snapshotEvery is how many commits lie between two snapshots, so that any
// version is folded from at most so many commits.
const snapshotEvery = 32

// row is everything stored of one session. Slices in it only grow at their end
// or are replaced; bytes in it never change. So a reader may copy the slices
// under the lock and use them without it.
type row struct {
	agentID string
	head    []byte // last version: everything but messages
	sum     uint32 // checksum of head as it was written
	header  []byte // with the open tail's task and workflow rows

	log  log
	tail []change // the open tail

	live    int        // changes of the tail that are in force
	running bool       // an execution is open, tail included
	due     *time.Time // when somebody should work on it; nil: never

	commits   []store.CommitInfo // of version 1, 2, …
	snapshots []snapshot

	lease admission.Lease
	inbox inbox
	keys  keys
}

// snapshot is the head of an earlier version.
type snapshot struct {
	version int64
	seq     int64
	head    []byte
}

// current decodes the last version, without its messages.
func (w *row) current(id string) (session.Session, error) {
	s, err := session.DecodeHead(w.head, nil)
	if err == nil && s.ID() != id {
		err = &session.InvalidError{Field: "header.sessionId", Reason: "is that of another session"}
	}
	return s, store.Unreadable(id, "head", err)
}

// readable returns why the last version cannot be read. A head with the right
// checksum is not decoded.
func (w *row) readable(id string) error {
	if crc32.ChecksumIEEE(w.head) == w.sum {
		return nil
	}
	if _, err := w.current(id); err != nil {
		return err
	}
	return &session.CorruptError{ID: id, Path: "head", Reason: "it does not match its checksum"}
}

// info is the header.
func (w *row) info(id string) (session.Info, error) { return decodeHeader(id, w.header) }

func decodeHeader(id string, raw []byte) (session.Info, error) {
	i, err := session.DecodeHeader(raw)
	return i, store.Unreadable(id, "header", err)
}

// version is the last one.
func (w *row) version() int64 { return int64(len(w.commits)) }

// last is the number of the last change, sealed or in the tail.
func (w *row) last() int64 { return w.log.last() + int64(len(w.tail)) }

// newestSnapshot is the newest snapshot that is not later than a version.
// Version 1 always has one.
func (w *row) newestSnapshot(version int64) snapshot {
	i, found := slices.BinarySearchFunc(w.snapshots, version, func(s snapshot, v int64) int { return int(s.version - v) })
	if !found {
		i--
	}
	return w.snapshots[i]
}

// seal adds a version: the tail and the new changes move into the log, and a
// commit and a head are stored.
func (w *row) seal(sealed session.Session, enc encodedSave, c store.Commit) {
	info := sealed.Info()
	first := w.log.last() + 1
	marked := markDiscarded(first, append(slices.Clone(w.tail), enc.changes...))
	w.log = w.log.with(info.Version, marked)
	w.tail, w.live, w.running, w.due = nil, 0, sealed.Running(), dueOf(sealed)
	w.head, w.sum, w.header = enc.head, crc32.ChecksumIEEE(enc.head), enc.header
	w.agentID = sealed.AgentID()
	w.commits = append(w.commits, store.CommitInfo{
		ID: c.ID, Version: info.Version, FirstSeq: first, LastSeq: info.Seq, Action: c.Action, Actor: c.Actor, At: info.UpdatedAt,
	})
	if n := len(w.snapshots); n == 0 || info.Version-w.snapshots[n-1].version >= snapshotEvery {
		w.snapshots = append(w.snapshots, snapshot{version: info.Version, seq: info.Seq, head: enc.head})
	}
	w.inbox.dropTaken()
	w.keys.seal(info.Version)
}
