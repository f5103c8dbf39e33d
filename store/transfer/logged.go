package transfer

import (
	"context"
	"errors"
	"fmt"
	"math"
	"reflect"

	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/store"
)

// logged is a target with a log.
type logged struct {
	*job
	theirs store.Logs // the target

	saved  session.Session // the last version in the target, without messages; zero before there is one
	shared int64           // the last change the source has of a parent
	unread []store.Item    // what is in the source's inbox

	compared        int64 // the logs were compared up to this change
	comparedVersion int64 // and the commits up to this version
}

func (l *logged) look(ctx context.Context) (Outcome, error) {
	var err error
	if l.shared, err = l.inherited(ctx); err != nil {
		return "", err
	}
	missing, err := l.missingItems(ctx)
	if err != nil {
		return "", err
	}
	l.saved, err = l.to.Load(ctx, l.ref, false)
	switch {
	case errors.Is(err, session.ErrNotFound):
		return Copied, nil
	case err != nil:
		return "", err
	}
	if err := l.compare(ctx); err != nil {
		return "", err
	}
	more, err := l.source.Log(ctx, l.ref, l.last, 1)
	if err != nil {
		return "", err
	}
	further, err := l.source.Commits(ctx, l.ref, l.version, 1)
	if err != nil {
		return "", err
	}
	if len(more)+len(further)+missing > 0 {
		return Continued, nil
	}
	l.setAgreed(l.ref, l.last)
	return Same, nil
}

// compare compares what was not compared yet, and finds where the target ends.
func (l *logged) compare(ctx context.Context) error {
	c := comparison{source: l.source, target: l.theirs, ref: l.ref, targetRef: l.ref, inherited: l.shared, upTo: math.MaxInt64}
	version, badCommit, err := c.commits(ctx, l.comparedVersion)
	if err != nil {
		return err
	}
	last, badChange, err := c.log(ctx, l.compared)
	switch {
	case err != nil:
		return err
	case badChange != 0:
		return l.differs(badChange)
	case badCommit != 0:
		return l.differs(badCommit)
	}
	l.version, l.last = version, last
	l.compared, l.comparedVersion = l.saved.Info().Seq, version // what is in the tail is not decided
	return nil
}

// write replays what is missing, version by version, then the open tail. If the
// source gets new versions meanwhile, they are copied too.
func (l *logged) write(ctx context.Context) error {
	if l.outcome == Same {
		return nil
	}
	for done := false; !done; {
		if err := l.versions(ctx); err != nil {
			return err
		}
		var err error
		if done, err = l.tail(ctx); err != nil {
			return err
		}
	}
	version, last := l.version, l.last
	if err := l.compare(ctx); err != nil {
		return l.mismatch(err)
	}
	if l.version != version || l.last != last {
		return l.mismatch(l.differs(min(last, l.last) + 1))
	}
	l.setAgreed(l.ref, l.last)
	return l.compareInbox(ctx)
}

// versions writes the versions that the target lacks.
func (l *logged) versions(ctx context.Context) error {
	if !l.saved.IsZero() {
		if err := l.post(ctx, l.unread); err != nil {
			return err
		}
	}
	for {
		commits, err := l.source.Commits(ctx, l.ref, l.version, 0)
		if err != nil || len(commits) == 0 {
			return err
		}
		for _, c := range commits {
			if err := l.seal(ctx, c); err != nil {
				return fmt.Errorf("copy version %d: %w", c.Version, err)
			}
		}
	}
}

// seal writes one version.
func (l *logged) seal(ctx context.Context, c store.CommitInfo) error {
	var saved session.Session
	var err error
	if l.saved.IsZero() {
		saved, err = l.create(ctx, c)
	} else {
		saved, err = l.save(ctx, c)
	}
	if err != nil {
		return err
	}
	// The messages are in the log. Without them in the value, a long history needs
	// no more memory than its longest version.
	l.saved = session.WithoutMessages(saved)
	l.version, l.last = c.Version, c.LastSeq
	if c.Version == 1 {
		return l.post(ctx, l.unread)
	}
	return nil
}

func (l *logged) save(ctx context.Context, c store.CommitInfo) (session.Session, error) {
	records, err := l.records(ctx, l.saved.Info().Seq, c.LastSeq)
	if err != nil {
		return session.Session{}, err
	}
	next, err := session.Replay(l.saved, records, l.last)
	if err != nil {
		return session.Session{}, err
	}
	if err := l.post(ctx, takenBy(session.Unsaved(next))); err != nil {
		return session.Session{}, err
	}
	return l.to.Save(ctx, next, commitOf(c))
}

func commitOf(c store.CommitInfo) store.Commit {
	return store.Commit{ID: c.ID, Action: c.Action, Actor: c.Actor, At: c.At}
}

// records are the changes after one number and up to another.
func (l *logged) records(ctx context.Context, after, upTo int64) ([]session.Record, error) {
	var records []session.Record
	for after < upTo {
		page, err := l.source.Log(ctx, l.ref, after, int(min(upTo-after, pageSize)))
		if err != nil {
			return nil, err
		}
		if len(page) == 0 {
			return nil, &session.CorruptError{ID: l.ref.ID, Path: fmt.Sprintf("change %d", after+1), Reason: "it is not in the log of the source"}
		}
		records = append(records, recordsOf(page)...)
		after = page[len(page)-1].Seq
	}
	return records, nil
}

const pageSize = 500

// tail writes the open tail. It is not done if the source has sealed the tail
// meanwhile.
func (l *logged) tail(ctx context.Context) (done bool, err error) {
	// One read, because the tail could be sealed or discarded between two.
	entries, err := l.source.Log(ctx, l.ref, l.saved.Info().Seq, math.MaxInt32)
	if err != nil || len(entries) == 0 || entries[len(entries)-1].Seq <= l.last {
		return true, err
	}
	if entries[0].Version != 0 {
		return false, nil
	}
	tails, ok := l.to.(store.Tails)
	if !ok {
		l.note("its unfinished turn was not copied: the target cannot keep one")
		return true, nil
	}
	next, err := session.Replay(l.saved, recordsOf(entries), l.last)
	if err != nil {
		return false, err
	}
	if err := l.post(ctx, takenBy(session.Unsaved(next))); err != nil {
		return false, err
	}
	if _, err := tails.Append(ctx, next, store.Append{}); err != nil {
		return false, fmt.Errorf("copy open tail: %w", err)
	}
	l.last = next.Seq()
	return true, nil
}

// missingItems reads the inbox of the source and counts what the target's
// lacks.
func (l *logged) missingItems(ctx context.Context) (int, error) {
	from, ok := l.from.(store.Inboxes)
	if !ok {
		return 0, nil
	}
	var err error
	if l.unread, err = from.Inbox(ctx, l.ref); err != nil || len(l.unread) == 0 {
		return 0, err
	}
	to, ok := l.to.(store.Inboxes)
	if !ok {
		l.note("its inbox was not copied: the target has none")
		l.unread = nil
		return 0, nil
	}
	there, err := to.Inbox(ctx, l.ref)
	if err != nil && !errors.Is(err, session.ErrNotFound) {
		return 0, err
	}
	return len(l.unread) - len(common(l.unread, there)), nil
}

// common returns the items that are in both inboxes, by id.
func common(ours, theirs []store.Item) map[string][2]store.Item {
	both := map[string][2]store.Item{}
	for _, a := range ours {
		for _, b := range theirs {
			if a.ID == b.ID {
				both[a.ID] = [2]store.Item{a, b}
			}
		}
	}
	return both
}

// post puts items into the target's inbox, which ignores ids it has seen before.
func (l *logged) post(ctx context.Context, items []store.Item) error {
	to, ok := l.to.(store.Inboxes)
	if !ok {
		return nil
	}
	for _, item := range items {
		if err := to.Post(ctx, l.ref, item); err != nil {
			return fmt.Errorf("copy inbox item %s: %w", item.ID, err)
		}
	}
	return nil
}

// takenBy returns an item for each record that takes one, because a target lets
// only items be taken that are in its inbox. Their content is gone in the source.
func takenBy(records []session.Record) []store.Item {
	var items []store.Item
	for _, r := range records {
		if taken, ok := r.Change.(session.InboxTaken); ok {
			items = append(items, store.Item{ID: taken.ItemID, Kind: store.ItemKind(taken.ItemKind), At: r.At})
		}
	}
	return items
}

// compareInbox reports items whose content the target does not have: a turn had
// taken them when they were copied, and gave them back later.
func (l *logged) compareInbox(ctx context.Context) error {
	to, ok := l.to.(store.Inboxes)
	if !ok || len(l.unread) == 0 {
		return nil
	}
	there, err := to.Inbox(ctx, l.ref)
	if err != nil {
		return err
	}
	for id, pair := range common(l.unread, there) {
		if !reflect.DeepEqual(pair[0], pair[1]) {
			l.note("inbox item %q is there without its content: a turn had taken it when it was first copied", id)
		}
	}
	return nil
}
