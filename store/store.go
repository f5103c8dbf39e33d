// Package store is the contract between the runtime and what keeps sessions.
//
// Store is what every store does. Everything more is an optional ability: a
// small interface of its own (Tails, Leases, Starts, Logs, Forks, Inboxes,
// Wakes, Work, Spends, Keys, Sweeps, Memories, Vectors, Doctors) that a store implements or does not;
// the runtime asks once.
// A store that implements Store alone works: it keeps sessions and decides races
// by version, but an execution interrupted by a crash cannot be resumed and
// there is no history.
//
// Stores hold no business rules and publish no events. Package admission makes
// the decisions they share, package storetest checks all that is promised here.
package store

import (
	"context"
	"time"

	"github.com/holdfast-dev/holdfast/session"
)

// Ref names a session. Two tenants may use the same id for different sessions.
type Ref struct{ Tenant, ID string }

// RefOf returns the ref of a session; of the zero session, the zero Ref, which
// Check refuses.
func RefOf(s session.Session) Ref {
	if s.IsZero() {
		return Ref{}
	}
	return Ref{Tenant: s.Tenant(), ID: s.ID()}
}

// Check refuses a ref whose parts break their rules.
func (r Ref) Check() error {
	if err := session.CheckID(r.ID); err != nil {
		return err
	}
	return session.CheckTenant(r.Tenant)
}

// Commit describes one save.
type Commit struct {
	ID     string    // chosen by the caller, unique; asks for the outcome of a lost save
	Action string    // what was executed; "create", "fork" for new sessions
	Actor  string    // who asked, may be empty
	At     time.Time // becomes the header's UpdatedAt, moved later if that is not later

	// Fence is the token of the lease the writer holds, 0 for none.
	Fence int64
	// Release ends that lease in the same transaction.
	Release bool
	// Keys are written with the commit: the next use of one finds this version.
	Keys []Key
}

// Store keeps sessions. All methods are safe for concurrent use. What they
// return is isolated: nothing a caller does to it reaches the store. Every
// method returns ErrClosed after Close, the context's error when the context
// ends before the work is done, and InvalidError for the zero session and for an
// id or a tenant that breaks its rules.
type Store interface {
	// Create stores a version-0 session as version 1. The checks run in this
	// order: InvalidError (id), ConflictError exists (deleted and corrupt
	// sessions exist too), ConflictError nonzero_version. A fork shares its
	// parent's log if the store holds the very parent it was made of. Otherwise
	// it gets a log of its own (session.Detach), which needs its whole
	// transcript: InvalidError for a part of one.
	Create(ctx context.Context, s session.Session, c Commit) (session.Session, error)

	// Save stores a session's pending changes, seals the open tail and adds
	// one version. The checks run in this order: ErrNotFound, CorruptError,
	// BusyError (a lease lives, and c.Fence is 0) or FencedError (c.Fence is
	// not the session's newest token, or was released), ConflictError replaced
	// (another agent id), ConflictError stale (another version), ConflictError
	// open_tail (s.Base is not the last change), InvalidError (an inbox item
	// is gone or taken). Data of a newer format is NewerFormatError instead of
	// CorruptError. After any error but UnknownOutcomeError the session is
	// untouched.
	//
	// A lease that ran out and that nobody has taken since still admits its
	// holder: its token is the newest, so others can have acted in between only
	// by making a version, and the version check finds that.
	Save(ctx context.Context, s session.Session, c Commit) (session.Session, error)

	// Load reads the last version, with the window's messages at least. With
	// tail, the open tail is applied to it (stores with Tails); a session with an
	// open tail can be saved only if it was loaded with it, even if all of the
	// tail was discarded. ErrNotFound, CorruptError, NewerFormatError. A store
	// may keep what it has read or written and return it as long as the stored
	// session has the same last change; damage that is done to stored data in the
	// meantime is then found by others, by a write and by a check.
	Load(ctx context.Context, r Ref, tail bool) (session.Session, error)

	// Info reads the header of the last version; its task and workflow parts
	// are those of the open tail. ErrNotFound, CorruptError, NewerFormatError.
	Info(ctx context.Context, r Ref) (session.Info, error)

	// List finds sessions of one tenant by their headers, as Info shows them.
	// A session that cannot be read is reported in Page.Corrupt and is no error.
	// InvalidError for a bad query or cursor.
	List(ctx context.Context, tenant string, q Query) (Page, error)

	// Delete removes a session for good, with lease, tail, inbox and keys;
	// forks of it stay readable. A missing id is no error. A corrupt session
	// can be deleted. BusyError while a lease lives whose token is not fence.
	Delete(ctx context.Context, r Ref, fence int64) error

	// Close releases what the store holds. It may be called twice.
	Close() error
}

// Tails keeps changes of an execution that still runs.
type Tails interface {
	// Append makes a session's pending changes durable without making a
	// version, and returns the session with them flushed. It takes the inbox
	// items named in InboxTaken changes; a TailDiscarded that covers such a
	// change gives them back. Info shows new task and workflow rows at once, and
	// the old ones again when they are discarded. Errors as Save, in the same
	// order; InvalidError for a SessionRewound too, because only a version can be
	// rewound.
	Append(ctx context.Context, s session.Session, a Append) (session.Session, error)

	// Interrupted lists sessions with an open tail in force or a running
	// execution, and no live lease.
	Interrupted(ctx context.Context, tenant string) ([]Ref, error)
}

// Starts takes a lease and writes the beginning of an execution in one write.
type Starts interface {
	// Start is Acquire followed by Append under the new lease, in one write:
	// both happen or neither does. Errors as Append's without a fence.
	Start(ctx context.Context, s session.Session, b Beginning) (session.Session, Lease, error)
}

// Beginning describes the first write of an execution.
type Beginning struct {
	Holder string
	Length time.Duration // of the lease
	Keys   []Key         // as in Append
}

// Append describes one write to the open tail.
type Append struct {
	Fence int64 // token of the lease the writer holds; 0 for none
	Keys  []Key // as in Commit; their version is 0 until the tail is sealed
}

// Lease is the right to execute on a session. Tokens grow strictly across the
// store.
type Lease struct {
	Token  int64
	Holder string
	Until  time.Time
}

// Leases hands out the right to execute. The store's clock decides expiry.
type Leases interface {
	// Acquire takes the lease for a while. BusyError names a live holder;
	// ErrNotFound where there is no session. If the holder's process is known to
	// be dead, the lease may be taken before its end.
	Acquire(ctx context.Context, r Ref, holder string, length time.Duration) (Lease, error)
	// Renew prolongs it, counted from now. A lease that ran out can be renewed
	// as long as nobody took it. FencedError if it was taken or released.
	Renew(ctx context.Context, r Ref, l Lease, length time.Duration) (Lease, error)
	// Release ends it: nothing can be written under its token any more. It is no
	// error if the lease was taken or ended before, or the session is gone.
	Release(ctx context.Context, r Ref, l Lease) error
	// Holding is the live lease, if there is one. ErrNotFound where there is
	// no session.
	Holding(ctx context.Context, r Ref) (Lease, bool, error)
}

// CommitInfo is a commit as the log keeps it.
type CommitInfo struct {
	ID       string    `json:"id"`
	Version  int64     `json:"version"`
	FirstSeq int64     `json:"firstSeq"` // LastSeq+1 when the commit changed nothing
	LastSeq  int64     `json:"lastSeq"`
	Action   string    `json:"action"`
	Actor    string    `json:"actor"`
	At       time.Time `json:"at"` // the UpdatedAt of that version
}

// Logs keeps every change and every version.
type Logs interface {
	// Log reads changes after a number, sealed or in the tail, at most limit
	// (see PageLimit). For a fork the parent's changes up to the fork point
	// come first, with the parent's versions on them.
	Log(ctx context.Context, r Ref, after int64, limit int) ([]session.LogEntry, error)
	// Commits reads the session's own commits after a version, at most limit
	// (see PageLimit).
	Commits(ctx context.Context, r Ref, after int64, limit int) ([]CommitInfo, error)
	// LoadAt reads any version with the messages of its window. InvalidError
	// outside 1 to the current one.
	LoadAt(ctx context.Context, r Ref, version int64) (session.Session, error)
	// LoadWhole reads a version, 0 for the last, with its whole transcript.
	LoadWhole(ctx context.Context, r Ref, version int64) (session.Session, error)
}

// Forks creates forks that share their parent's log.
type Forks interface {
	// Fork stores a version-0 session made by Session.Fork as version 1, at a
	// cost that does not depend on its history. The checks are Create's; then
	// ErrNotFound when the very session it was made of is not here any more,
	// and InvalidError for a session that is no fork.
	Fork(ctx context.Context, s session.Session, c Commit) (session.Session, error)
}

// Inboxes is the durable queue of each session. Writing needs no lease. An
// item is taken by an InboxTaken change in an Append or Save, so once.
type Inboxes interface {
	// Post adds an item; one whose id was ever there is dropped without error.
	// InvalidError as Item.Check; ErrNotFound where there is no session.
	Post(ctx context.Context, r Ref, item Item) error
	// Inbox reads what is not taken, in order of arrival; an item given back
	// has its old place. ErrNotFound where there is no session.
	Inbox(ctx context.Context, r Ref) ([]Item, error)
	// Unread lists the sessions with an item that is not taken, and no live
	// lease.
	Unread(ctx context.Context, tenant string) ([]Ref, error)
}

// Wakes tells waiting readers that there may be something new. It is a hint: it
// may come without a write, and a reader must poll as well.
type Wakes interface {
	// Subscribe tells of writes to the session, its lease or its inbox. The zero Ref
	// stands for every session. The channel holds one signal. Stop ends it and may be
	// called twice.
	Subscribe(r Ref) (news <-chan struct{}, stop func())
}

// Keys remembers idempotency keys, at least for 24 hours.
type Keys interface {
	// Key reports the first use of a key. A discarded tail forgets its keys.
	// ErrNotFound where there is no session.
	Key(ctx context.Context, r Ref, name string) (KeyUse, bool, error)
}

// Sweeps finds sessions that may be removed.
type Sweeps interface {
	// Sweepable lists sessions that a retention no longer wants, the least
	// recently updated first, the id breaking ties. It leaves out sessions with a
	// live lease, an open tail in force or an unread inbox, and those that cannot
	// be read.
	Sweepable(ctx context.Context, tenant string, r Retention, now time.Time) ([]session.Info, error)
}

// Progress is called with how much of long work is done. A total of 0 is not
// known yet.
type Progress func(done, total int)

// Report calls a progress that may be nil.
func (p Progress) Report(done, total int) {
	if p != nil {
		p(done, total)
	}
}

// Doctors check and repair everything in a store, in all tenants. The log is the
// truth; heads, headers and indexes follow from it.
type Doctors interface {
	// Check reads everything and lists what is wrong. It changes nothing and may
	// run while the store is in use. An error means that it could not read.
	Check(ctx context.Context, p Progress) (problems []string, err error)

	// CheckSession reads everything of one session and lists what is wrong. A
	// session that does not exist is ErrNotFound.
	CheckSession(ctx context.Context, r Ref) (problems []string, err error)

	// Reindex builds the index of words anew and returns its number of passages.
	Reindex(ctx context.Context, p Progress) (int, error)

	// Repair builds anew what is not as the log says, and lists what it repaired.
	// It removes nothing and alters no log; what cannot be repaired stays as it
	// is, and Check names it.
	Repair(ctx context.Context, p Progress) (repaired []string, err error)
}
