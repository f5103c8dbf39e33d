package transfer_test

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/store"
	"github.com/holdfast-dev/holdfast/store/file"
	"github.com/holdfast-dev/holdfast/store/inmem"
	"github.com/holdfast-dev/holdfast/store/transfer"
)

// liar is a store whose log says something else than was written to it.
type liar struct {
	*inmem.Store
	from int64 // the first change it lies about
}

func (l *liar) Log(ctx context.Context, r store.Ref, after int64, limit int) ([]session.LogEntry, error) {
	entries, err := l.Store.Log(ctx, r, after, limit)
	for i := range entries {
		if entries[i].Seq >= l.from {
			entries[i].At = entries[i].At.Add(time.Microsecond)
		}
	}
	return entries, err
}

// forgetful is a store that loses its last commit.
type forgetful struct{ *inmem.Store }

func (f forgetful) Commits(ctx context.Context, r store.Ref, after int64, limit int) ([]store.CommitInfo, error) {
	commits, err := f.Store.Commits(ctx, r, after, limit)
	return slices.DeleteFunc(commits, func(c store.CommitInfo) bool { return c.Version == 3 }), err
}

func TestCopy_copyThatDoesNotReadBackIsAnError(t *testing.T) {
	t.Parallel()
	from := inmem.New(inmem.Config{})
	save(t, from, named(t, save(t, from, named(t, create(t, from, "a", "agent-a"), "one")), "two"))
	for want, to := range map[string]store.Store{
		"change 2": &liar{Store: inmem.New(inmem.Config{}), from: 2},
		"change 4": forgetful{inmem.New(inmem.Config{})},
	} {
		_, err := transfer.New(from, to).Copy(t.Context(), ref("a"))
		var corrupt *session.CorruptError
		if !errors.As(err, &corrupt) || corrupt.ID != "a" || corrupt.Path != want {
			t.Errorf("got %v, want a mismatch at %s", err, want)
		}
	}
}

func TestCopy_runningSessionIsCopiedAsFarAsItIs(t *testing.T) {
	t.Parallel()
	from, to := inmem.New(inmem.Config{}), inmem.New(inmem.Config{})
	s := create(t, from, "a", "agent-a")
	lease, err := from.Acquire(t.Context(), ref("a"), "somebody", time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := from.Append(t.Context(), named(t, s, "working"), store.Append{Fence: lease.Token}); err != nil {
		t.Fatal(err)
	}
	report, err := transfer.New(from, to).Copy(t.Context(), ref("a"))
	if err != nil || report.Seq != 2 || report.Holder != "somebody" {
		t.Errorf("report %+v, %v", report, err)
	}
	same(t, t, to, from, "a")
}

func TestCopy_busyTargetIsLeftAlone(t *testing.T) {
	t.Parallel()
	from, to := inmem.New(inmem.Config{}), inmem.New(inmem.Config{})
	s := create(t, from, "a", "agent-a")
	mustCopyAll(t, t, from, to)
	if _, err := to.Acquire(t.Context(), ref("a"), "somebody", time.Hour); err != nil {
		t.Fatal(err)
	}
	save(t, from, named(t, s, "more"))
	if _, err := transfer.New(from, to).Copy(t.Context(), ref("a")); !errors.Is(err, session.ErrBusy) {
		t.Errorf("got %v, want busy", err)
	}
}

// forked is a fork whose parent was purged. The parent may have taken from its
// inbox.
func forked(t *testing.T, st *inmem.Store, taking bool) {
	t.Helper()
	s := create(t, st, "parent", "agent-parent")
	if taking {
		if err := st.Post(t.Context(), ref("parent"), store.Item{ID: "i", Kind: store.ItemFollowUp, At: time.Now()}); err != nil {
			t.Fatal(err)
		}
		var err error
		if s, err = s.With(time.Now(), session.InboxTaken{ItemID: "i", ItemKind: string(store.ItemFollowUp)}); err != nil {
			t.Fatal(err)
		}
	}
	s = save(t, st, named(t, s, "one"))
	fork, err := s.Fork("fork", "agent-fork", time.Now())
	if err != nil {
		t.Fatal(err)
	}
	if fork, err = st.Fork(t.Context(), fork, store.Commit{ID: "fork", Action: "fork", At: time.Now()}); err != nil {
		t.Fatal(err)
	}
	save(t, st, named(t, fork, "two"))
	if err := st.Delete(t.Context(), ref("parent"), 0); err != nil {
		t.Fatal(err)
	}
}

func TestCopy_forkOfAPurgedParentKeepsItsHistory(t *testing.T) {
	t.Parallel()
	from, to, back := inmem.New(inmem.Config{}), inmem.New(inmem.Config{}), inmem.New(inmem.Config{})
	forked(t, from, false)
	report, err := transfer.New(from, to).Copy(t.Context(), ref("fork"))
	if err != nil || len(report.Notes) != 1 || !strings.Contains(report.Notes[0], "its parent parent is not there") {
		t.Fatalf("report %+v, %v", report, err)
	}
	same(t, t, to, from, "fork")
	mustCopyAll(t, t, to, back)
	same(t, t, back, from, "fork")

	from = inmem.New(inmem.Config{})
	forked(t, from, true)
	if _, err := transfer.New(from, inmem.New(inmem.Config{})).Copy(t.Context(), ref("fork")); !errors.Is(err, session.ErrUnsupported) {
		t.Errorf("the parent had taken from its inbox: got %v, want unsupported", err)
	}
}

// A parent that went another way after the fork is still the parent; one that
// went another way before it is not, and the target could not tell.
func TestCopy_forkOfAParentThatDiffers(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		prepare func(t *testing.T, to *inmem.Store)
		want    error
	}{
		"after the fork": {func(t *testing.T, to *inmem.Store) {
			s, err := to.Load(t.Context(), ref("parent"), false)
			if err != nil {
				t.Fatal(err)
			}
			save(t, to, named(t, s, "its own way"))
		}, nil},
		"before the fork": {func(t *testing.T, to *inmem.Store) {
			if err := to.Delete(t.Context(), ref("parent"), 0); err != nil {
				t.Fatal(err)
			}
			save(t, to, named(t, create(t, to, "parent", "agent-parent"), "its own way"))
		}, session.ErrConflict},
		"another agent": {func(t *testing.T, to *inmem.Store) {
			if err := to.Delete(t.Context(), ref("parent"), 0); err != nil {
				t.Fatal(err)
			}
			save(t, to, named(t, create(t, to, "parent", "agent-other"), "one"))
		}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			from, to := inmem.New(inmem.Config{}), inmem.New(inmem.Config{})
			s := save(t, from, named(t, create(t, from, "parent", "agent-parent"), "one"))
			mustCopyAll(t, t, from, to)
			c.prepare(t, to)
			fork, err := s.Fork("fork", "agent-fork", time.Now())
			if err != nil {
				t.Fatal(err)
			}
			if _, err := from.Fork(t.Context(), fork, store.Commit{ID: "fork", Action: "fork", At: time.Now()}); err != nil {
				t.Fatal(err)
			}
			_, err = transfer.New(from, to).Copy(t.Context(), ref("fork"))
			if !errors.Is(err, c.want) {
				t.Fatalf("got %v, want %v", err, c.want)
			}
			if c.want == nil {
				same(t, t, to, from, "fork")
			}
		})
	}
}

func TestLook_writesNothing(t *testing.T) {
	t.Parallel()
	from, to := inmem.New(inmem.Config{}), inmem.New(inmem.Config{})
	s := create(t, from, "a", "agent-a")
	look := func(want transfer.Outcome) {
		t.Helper()
		report, err := transfer.New(from, to).Look(t.Context(), ref("a"))
		if err != nil || report.Outcome != want {
			t.Errorf("report %+v, %v; want %s", report, err, want)
		}
	}
	look(transfer.Copied)
	if ids := allIDs(t, to); len(ids) != 0 {
		t.Errorf("a look has made %v", ids)
	}
	mustCopyAll(t, t, from, to)
	look(transfer.Same)
	if err := from.Post(t.Context(), ref("a"), store.Item{ID: "i", Kind: store.ItemFollowUp, At: time.Now()}); err != nil {
		t.Fatal(err)
	}
	look(transfer.Continued) // an inbox item is missing
	mustCopyAll(t, t, from, to)
	look(transfer.Same)
	save(t, from, s) // a version without a change is missing
	look(transfer.Continued)
	same(t, t, to, to, "a")
	if info, err := to.Info(t.Context(), ref("a")); err != nil || info.Version != 1 {
		t.Errorf("a look has made version %d, %v", info.Version, err)
	}
}

// A source without a log gives its session as version 1, its unfinished turn
// included, and the same again when asked again.
func TestCopy_fromFilesAsVersionOne(t *testing.T) {
	t.Parallel()
	from, err := file.Open(t.TempDir(), file.Config{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := from.Close(); err != nil {
			t.Error(err)
		}
	})
	s := save(t, from, named(t, create(t, from, "a", "agent-a"), "one"))
	if s, err = s.WithMessage(session.Message{ID: "m", Role: session.RoleUser, Content: session.Text("hello")}, time.Now()); err != nil {
		t.Fatal(err)
	}
	s = save(t, from, s)
	if s, err = s.With(time.Now(), session.ExecutionStarted{ExecutionID: "x"}); err != nil {
		t.Fatal(err)
	}
	if _, err := from.Append(t.Context(), s, store.Append{}); err != nil {
		t.Fatal(err)
	}
	to := inmem.New(inmem.Config{})
	report, err := transfer.New(from, to).Copy(t.Context(), ref("a"))
	if err != nil || report.Version != 1 || report.Outcome != transfer.Copied {
		t.Fatalf("report %+v, %v", report, err)
	}
	got, err := to.LoadWhole(t.Context(), ref("a"), 0)
	if err != nil || got.Len() != 1 || got.AgentID() != "agent-a" || !got.Running() || got.Info().Name != "one" {
		t.Errorf("the copy is %+v with %d messages, running %t, %v", got.Info(), got.Len(), got.Running(), err)
	}
	if refs, err := to.Interrupted(t.Context(), tenant); err != nil || len(refs) != 1 {
		t.Errorf("the copy cannot be continued: %v, %v", refs, err)
	}
	if again := mustCopyAll(t, t, from, to); again[transfer.Same] != 1 {
		t.Errorf("copying again: %v", again)
	}
}

func TestPlan_parentsComeFirst(t *testing.T) {
	t.Parallel()
	st := inmem.New(inmem.Config{})
	ids := []string{"z-root", "y-child", "x-grandchild"} // by id they come in the wrong order
	root := create(t, st, ids[0], "agent-0")
	s := root
	for i, id := range ids[1:] {
		fork, err := s.Fork(id, "agent-"+ids[i+1], time.Now())
		if err != nil {
			t.Fatal(err)
		}
		if s, err = st.Fork(t.Context(), fork, store.Commit{ID: id, Action: "fork", At: time.Now()}); err != nil {
			t.Fatal(err)
		}
	}
	create(t, st, "a-other", "agent-other")
	late, err := root.Fork("zz-late", "agent-late", time.Now()) // by id it comes after its parent
	if err != nil {
		t.Fatal(err)
	}
	if _, err := st.Fork(t.Context(), late, store.Commit{ID: "late", Action: "fork", At: time.Now()}); err != nil {
		t.Fatal(err)
	}
	plan, err := transfer.PlanAll(t.Context(), st, tenant)
	want := [][]store.Ref{{ref("a-other"), ref("z-root")}, {ref("y-child"), ref("zz-late")}, {ref("x-grandchild")}}
	if err != nil || !slices.EqualFunc(plan.Generations, want, slices.Equal) {
		t.Errorf("generations %v, %v; want %v", plan.Generations, err, want)
	}
	some := func(ids ...string) []string {
		t.Helper()
		plan, err := transfer.PlanSome(t.Context(), st, tenant, ids)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, r := range plan.Refs() {
			got = append(got, r.ID)
		}
		return got
	}
	if got := some("x-grandchild", "y-child"); !slices.Equal(got, ids) {
		t.Errorf("some: %v, want %v", got, ids)
	}
	if err := st.Delete(t.Context(), ref("y-child"), 0); err != nil {
		t.Fatal(err)
	}
	if got := some("x-grandchild"); !slices.Equal(got, ids[2:]) {
		t.Errorf("with a purged parent: %v", got)
	}
	if _, err := transfer.PlanSome(t.Context(), st, tenant, []string{"nobody"}); !errors.Is(err, session.ErrNotFound) {
		t.Errorf("one that is not there: %v", err)
	}
}

// What a turn took from the inbox when it was copied is in the target without
// its content; that is told where it comes back.
func TestCopy_itemGivenBackLaterIsNoted(t *testing.T) {
	t.Parallel()
	from, to := inmem.New(inmem.Config{}), inmem.New(inmem.Config{})
	s := create(t, from, "a", "agent-a")
	item := store.Item{ID: "i", Kind: store.ItemFollowUp, Payload: session.Values{"text": json.RawMessage(`"hi"`)}, At: time.Now()}
	if err := from.Post(t.Context(), ref("a"), item); err != nil {
		t.Fatal(err)
	}
	taking, err := s.With(time.Now(), session.InboxTaken{ItemID: "i", ItemKind: string(store.ItemFollowUp)})
	if err != nil {
		t.Fatal(err)
	}
	taking = appendTo(t, from, taking)
	mustCopyAll(t, t, from, to)
	back, err := session.DiscardTail(s, 2, taking.Seq(), time.Now())
	if err != nil {
		t.Fatal(err)
	}
	appendTo(t, from, back)
	report, err := transfer.New(from, to).Copy(t.Context(), ref("a"))
	if err != nil || len(report.Notes) != 1 || !strings.Contains(report.Notes[0], `item "i" is there without its content`) {
		t.Errorf("report %+v, %v", report, err)
	}
}
