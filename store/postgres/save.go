package postgres

import (
	"context"
	"errors"
	"strconv"

	"github.com/jackc/pgx/v5"

	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/store"
	"github.com/holdfast-dev/holdfast/store/admission"
)

// The pieces of a save. Everything after the update of the session's row is
// written from what that returns, so only if the update was made.
const (
	moveOn = `WITH s AS (UPDATE sessions SET version = @of_version::bigint, seq = @seq::bigint, last_seq = @seq::bigint, write_id = @write,
		last_sum = @last_sum::bigint, row_sum = @row_sum::bigint,
		messages = @messages, updated_at = @updated_at::timestamptz, live = 0, running = @running::boolean, at_work = @running::boolean, due = @due::timestamptz, lease_ended = lease_ended OR @release`

	setHeader   = `, header = @header, header_sum = @header_sum, pending = @pending::boolean, tail_rows = NULL, shown_from = @shown_from, shown_to = @shown_to`
	moveListing = `, listed AS (UPDATE listing l SET updated_slot = @updated_slot, status = @status, origin = @origin, name = @name,
		task_status = @task_status, flow_status = @flow_status, expires_at = @expires_at FROM s WHERE l.sid = s.sid)`

	writeSnapshot = `, kept AS (INSERT INTO snapshots (sid, version, seq, head) SELECT s.sid, @of_version::bigint, @seq::bigint, @head::bytea FROM s)`

	endFold    = `, snap_version = @of_version::bigint, snapshot_bytes = octet_length(@head::bytea), unfolded = 0 WHERE ` + admitted + returnFold
	returnFold = ` RETURNING sid, snap_version, snapshot_bytes, unfolded)`

	foldLeft = ` SELECT snap_version, snapshot_bytes, unfolded FROM s`
)

// The bytes to fold are counted as they are written. A version that would leave
// too many versions without a snapshot is not admitted.
var countFold = `, unfolded = unfolded + @weight WHERE ` + admitted + ` AND @of_version::bigint - snap_version < ` + strconv.Itoa(foldVersionsLimit) + returnFold

var (
	saveVersion               = committing(moveOn+countFold, foldLeft)
	saveWithSnapshot          = committing(moveOn+endFold, writeSnapshot+foldLeft)
	saveWithHeader            = committing(moveOn+setHeader+countFold, moveListing+foldLeft)
	saveWithHeaderAndSnapshot = committing(moveOn+setHeader+endFold, moveListing+writeSnapshot+foldLeft)
)

// Save adds a version.
func (s *Store) Save(ctx context.Context, next session.Session, c store.Commit) (session.Session, error) {
	if err := s.usable(ctx, admission.CheckSession(next, c.Keys)); err != nil {
		return session.Session{}, err
	}
	sealed, r := session.Seal(next, c.At), store.RefOf(next)
	var left fold
	w, err := s.sendUntilDecided(ctx, next, c.Fence, func(before store.Sum) (*write, error) {
		return s.newSave(next, sealed, c, s.snapshotsDue.has(r), before, &left)
	})
	var lost *answerLostError
	switch {
	case err == nil:
		s.snapshotsDue.set(r, left.due(sealed.Version()))
		return s.warm.Keep(sealed, w.last), nil
	case !errors.As(err, &lost):
		return session.Session{}, err
	}
	switch s.askCommit(ctx, w, sealed.Version()) {
	case made:
		return s.warm.Keep(sealed, w.last), nil
	case replaced: // what refuses it now is the answer, in the order of the checks
		if _, err := s.refusal(ctx, next, c.Fence); isOurs(err) {
			return session.Session{}, err
		}
		return session.Session{}, &session.ConflictError{ID: next.ID(), Reason: session.ReasonStale, Want: next.Version(), Have: sealed.Version()}
	}
	return session.Session{}, &session.UnknownOutcomeError{ID: next.ID(), CommitID: c.ID, Err: lost.err}
}

func (s *Store) newSave(next, sealed session.Session, c store.Commit, snapshot bool, base store.Sum, left *fold) (*write, error) {
	before, info, pending := next.Info(), sealed.Info(), session.Unsaved(next)
	args := versionArgs(sealed, info)
	admit(args, next, c.Fence, base)
	args["release"] = admission.Releases(c)
	last, err := addChanges(args, pending, info.Version, base)
	if err != nil {
		return nil, err
	}
	addCommit(args, c, before.Seq+1, info, last)
	header := !onlyAdds(next, before, info, pending)
	if header {
		addWindow(args, sealed)
		if err := addHeader(args, info); err != nil {
			return nil, err
		}
	}
	if snapshot {
		head, err := session.EncodeHead(sealed)
		if err != nil {
			return nil, err
		}
		args["head"] = withLogSum(head, last)
	}
	w := s.newWrite("save", store.RefOf(next), args, &left.snapVersion, &left.snapBytes, &left.unfolded)
	w.last = last
	switch {
	case header && snapshot:
		w.add(saveWithHeaderAndSnapshot.of(len(pending)), nil)
	case header:
		w.add(saveWithHeader.of(len(pending)), nil)
	case snapshot:
		w.add(saveWithSnapshot.of(len(pending)), nil)
	default:
		w.add(saveVersion.of(len(pending)), nil)
	}
	w.addEffects(pending)
	w.addTags(next, sealed)
	w.addKeys(c.Keys, sealed.Seq())
	return w, nil
}

// addCommit adds the columns of a commit whose changes begin with first and end
// with the record that has this sum.
func addCommit(args pgx.NamedArgs, c store.Commit, first int64, info session.Info, last store.Sum) {
	i := store.CommitInfo{Version: info.Version, FirstSeq: first, LastSeq: info.Seq, Action: c.Action, Actor: c.Actor, At: info.UpdatedAt}
	args["commit_id"] = withSum([]byte(c.ID), commitSum(last, i)...)
	args["first_seq"], args["action"], args["actor"] = first, []byte(c.Action), []byte(c.Actor)
}

// The kinds of change that statements name.
const (
	messageAdded  = "message_added"
	tailDiscarded = "tail_discarded"
)

var (
	insertTaking = named(`INSERT INTO takings (sid, item_id, seq) SELECT m.sid, @item::text, @taken_by::bigint FROM ` + mine)
	markTaken    = named(`UPDATE inbox i SET taken = true FROM ` + mine + ` WHERE i.sid = m.sid AND i.item_id = @item::text`)

	insertDiscard = named(`INSERT INTO discards (log, from_seq, to_seq) SELECT m.sid, @from::bigint, @to::bigint FROM ` + mine)
	returnTakings = named(`WITH t AS (DELETE FROM takings t USING ` + mine + ` WHERE t.sid = m.sid AND t.seq BETWEEN @from::bigint AND @to::bigint RETURNING t.sid, t.item_id)
		UPDATE inbox i SET taken = false FROM t WHERE i.sid = t.sid AND i.item_id = t.item_id`)
	forgetKeys = named(`DELETE FROM keys k USING ` + mine + `
		WHERE k.sid = m.sid AND k.version = @of_version::bigint AND k.seq BETWEEN @from::bigint AND @to::bigint`)
)

// addEffects adds what changes do to the inbox and the keys, in the order they
// were made.
func (w *write) addEffects(records []session.Record) {
	for _, r := range records {
		switch c := r.Change.(type) {
		case session.InboxTaken:
			args := pgx.NamedArgs{"item": column(c.ItemID), "taken_by": r.Seq}
			w.add(insertTaking, args)
			w.add(markTaken, args)
		case session.TailDiscarded:
			args := pgx.NamedArgs{"from": c.From, "to": c.To}
			w.add(insertDiscard, args)
			w.add(returnTakings, args)
			w.add(forgetKeys, args)
		}
	}
}
