package postgres

import (
	"context"
	"fmt"
	"slices"

	"github.com/jackc/pgx/v5"

	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/store"
)

// examination compares a session, as its log makes it, with what is stored of
// it. Log and commits are the truth; a session that cannot be folded from them
// is not examined any further.
type examination struct {
	ref store.Ref
	sid int64

	kept      map[int64]snapshot  // by version, as stored
	snapshots map[int64]snapshot  // by version, as they must be
	changes   []logged            // of its own log
	sums      map[int64]store.Sum // by record
	last      session.Session     // the last version
	whole     session.Session     // and the open tail

	repairable []string
	others     []string // what is wrong with what does not follow from the log
}

type snapshot struct {
	version, seq int64
	head         []byte
}

// logged is a row of the log with what its record says.
type logged struct {
	logRow
	own       bool
	record    session.Record
	discarded bool // by a change of the same log
}

// examine reads all of a session. ErrNotFound where it is gone; CorruptError
// and NewerFormatError where its log cannot be folded or a newer program wrote
// any of it.
func examine(ctx context.Context, tx pgx.Tx, r store.Ref, sid int64) (*examination, error) {
	e := &examination{ref: r, sid: sid, snapshots: map[int64]snapshot{}, sums: map[int64]store.Sum{}}
	for _, step := range []func(context.Context, pgx.Tx) error{
		e.readSnapshots, e.fold, e.compareSnapshots, e.compareHeader, e.compareRow, e.compareTags, e.compareDiscards, e.compareInbox,
	} {
		if err := step(ctx, tx); err != nil {
			return nil, err
		}
	}
	return e, nil
}

func (e *examination) wrong(format string, args ...any) {
	e.repairable = append(e.repairable, fmt.Sprintf(format, args...))
}

func (e *examination) corrupt(format string, args ...any) error {
	return &session.CorruptError{ID: e.ref.ID, Path: "log", Reason: fmt.Sprintf(format, args...)}
}

func (e *examination) readSnapshots(ctx context.Context, tx pgx.Tx) error {
	e.kept = map[int64]snapshot{}
	rows, err := tx.Query(ctx, `SELECT version, seq, head FROM snapshots WHERE sid = $1`, e.sid)
	if err != nil {
		return err
	}
	var s snapshot
	_, err = pgx.ForEachRow(rows, []any{&s.version, &s.seq, &s.head}, func() error {
		e.kept[s.version] = s
		return nil
	})
	return err
}

// fold makes every version from the log, in order, and the snapshots there must
// be: those of version 1 and of every stored snapshot, and more where two are
// too far apart.
func (e *examination) fold(ctx context.Context, tx pgx.Tx) error {
	all, err := e.readLog(ctx, tx)
	if err != nil {
		return err
	}
	commits, err := commitsOf(ctx, tx, e.ref.ID, allCommits, pgx.NamedArgs{"sid": e.sid})
	if err != nil {
		return err
	}
	shared := slices.IndexFunc(all, func(c logged) bool { return c.own })
	if shared < 0 || len(commits) == 0 {
		return e.corrupt("it is empty")
	}
	e.changes = all[shared:]
	var s session.Session
	if shared > 0 {
		if s, err = session.Fold(recordsOf(all[:shared])); err != nil {
			return store.Unreadable(e.ref.ID, "log", err)
		}
	}
	rest, newest := e.changes, int64(0)
	for i, c := range commits {
		n := 0
		for n < len(rest) && rest[n].Seq <= c.LastSeq {
			n++
		}
		if c.Version != int64(i+1) || n > 0 && (rest[0].Seq != c.FirstSeq || rest[n-1].Seq != c.LastSeq) || n == 0 && c.FirstSeq != c.LastSeq+1 {
			return e.corrupt("commit %d does not follow the one before it", c.Version)
		}
		if n > 0 || s.IsZero() {
			if s, err = session.FoldFrom(s, recordsOf(rest[:n])); err != nil {
				return store.Unreadable(e.ref.ID, "log", err)
			}
		}
		s, rest = session.Seal(s, c.At), rest[n:]
		if _, ok := e.kept[c.Version]; ok || c.Version == 1 || c.Version-newest >= foldVersionsLimit {
			if err := e.expectSnapshot(s); err != nil {
				return err
			}
			newest = c.Version
		}
	}
	e.last = s
	if e.whole, err = session.ApplyTail(s, recordsOf(rest)); err != nil {
		return store.Unreadable(e.ref.ID, "tail", err)
	}
	if store.RefOf(s) != e.ref {
		return e.corrupt("it is that of session %s of %s", s.ID(), s.Tenant())
	}
	return nil
}

func (e *examination) expectSnapshot(s session.Session) error {
	head, err := session.EncodeHead(s)
	e.snapshots[s.Version()] = snapshot{s.Version(), s.Seq(), withLogSum(head, e.sums[s.Seq()])}
	return err
}

// readLog reads a session's whole log, that of its ancestors first.
func (e *examination) readLog(ctx context.Context, tx pgx.Tx) ([]logged, error) {
	rows, err := tx.Query(ctx, `SELECT c.seq, c.version, c.kind, c.body, l.log = l.sid FROM lineage l
		JOIN changes c ON c.log = l.log AND c.seq > l.after_seq AND c.seq <= l.upto_seq WHERE l.sid = $1 ORDER BY c.seq`, e.sid)
	if err != nil {
		return nil, err
	}
	var all []logged
	var c logged
	chain := store.Chain{ID: e.ref.ID}
	_, err = pgx.ForEachRow(rows, []any{&c.Seq, &c.Version, &c.Kind, &c.Body, &c.own}, func() error {
		var err error
		if c.record, err = decodeBody(c.Body); err != nil {
			return unreadableRecord(e.ref.ID, c.Seq, err)
		}
		if c.record.Seq != c.Seq {
			return unreadableRecord(e.ref.ID, c.Seq, errOtherPlace)
		}
		if err := follow(&chain, c.logRow); err != nil {
			return err
		}
		e.sums[c.Seq] = chain.Sum
		all = append(all, c)
		return nil
	})
	if err != nil {
		return nil, err
	}
	for _, c := range all {
		if d, ok := c.record.Change.(session.TailDiscarded); ok {
			for i := range all {
				all[i].discarded = all[i].discarded || all[i].Seq >= d.From && all[i].Seq <= d.To
			}
		}
	}
	return all, nil
}

var allCommits = `SELECT id, version, first_seq, last_seq, action, actor, at, ` + sumOfCommit + ` FROM commits k WHERE log = @sid ORDER BY version`

func recordsOf(changes []logged) []session.Record {
	records := make([]session.Record, len(changes))
	for i, c := range changes {
		records[i] = c.record
	}
	return records
}
