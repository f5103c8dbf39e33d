package postgres_test

import (
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/store"
	"github.com/holdfast-dev/holdfast/store/postgres"
	"github.com/holdfast-dev/holdfast/store/postgres/internal/pgtest"
)

// wantNews fails the test unless news come.
func wantNews(t *testing.T, what string, news <-chan struct{}) {
	t.Helper()
	select {
	case <-news:
	case <-time.After(time.Minute):
		t.Fatalf("no news after %s", what)
	}
}

// settle waits until the news of all that lies behind have come.
func settle(news <-chan struct{}) {
	for {
		select {
		case <-news:
		case <-time.After(50 * time.Millisecond):
			return
		}
	}
}

func save(t *testing.T, st store.Store, s session.Session, text string) session.Session {
	t.Helper()
	s, err := st.Save(t.Context(), said(t, s, text), store.Commit{ID: text, At: noon()})
	if err != nil {
		t.Fatalf("save: %v", err)
	}
	return s
}

func TestSubscribe_tellsOfOtherNodes(t *testing.T) {
	t.Parallel()
	const never = time.Hour
	for name, c := range map[string]struct {
		config func(url string) postgres.Config
	}{
		"told by the database":             {func(string) postgres.Config { return postgres.Config{Poll: never} }},
		"told beside a pooler":             {func(url string) postgres.Config { return postgres.Config{Poll: never, Pooled: true, ListenURL: url} }},
		"found by polling behind a pooler": {func(string) postgres.Config { return postgres.Config{Poll: 10 * time.Millisecond, Pooled: true} }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			url := migrated.Copy(t)
			reader, writer := open(t, url, c.config(url)), open(t, url, postgres.Config{})
			s := create(t, writer, "a")
			news, stop := reader.Subscribe(ref("a"))
			defer stop()
			wantNews(t, "it was hung up", news) // whatever came before is not known
			settle(news)
			s = save(t, writer, s, "one")
			wantNews(t, "a save", news)
			settle(news)
			if _, err := writer.Append(t.Context(), said(t, s, "two"), store.Append{}); err != nil {
				t.Fatal(err)
			}
			wantNews(t, "an append", news)
			settle(news)
			if err := writer.Post(t.Context(), ref("a"), store.Item{ID: "i", Kind: store.ItemFollowUp, At: noon()}); err != nil {
				t.Fatal(err)
			}
			wantNews(t, "a post", news)
			settle(news)
			l, err := writer.Acquire(t.Context(), ref("a"), "me", time.Minute)
			if err != nil {
				t.Fatal(err)
			}
			wantNews(t, "an acquire", news)
			settle(news)
			if err := writer.Delete(t.Context(), ref("a"), l.Token); err != nil {
				t.Fatal(err)
			}
			wantNews(t, "a delete", news)
		})
	}
}

func TestSubscribe_listensAgainWhenCutOff(t *testing.T) {
	t.Parallel()
	url := migrated.Copy(t)
	named := pgtest.With(t, url, "application_name", "listener")
	reader, writer := open(t, url, postgres.Config{Poll: time.Hour, ListenURL: named}), open(t, url, postgres.Config{})
	s := create(t, writer, "a")
	news, stop := reader.Subscribe(ref("a"))
	defer stop()
	wantNews(t, "it listens", news)
	settle(news)
	killer := pgtest.Connect(t, url)
	tag, err := killer.Exec(t.Context(), `SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'listener'`)
	if err != nil || tag.RowsAffected() != 1 {
		t.Fatalf("cut off %d listeners: %v", tag.RowsAffected(), err)
	}
	wantNews(t, "it listens again", news) // for what it may have missed
	settle(news)
	save(t, writer, s, "one")
	wantNews(t, "a save", news)
}

// A post that meets a release, or any write, waits for it: whoever comes
// second sees what the first one did, so that no item is left unseen.
func TestPost_waitsForTheSessionsRow(t *testing.T) {
	t.Parallel()
	url := migrated.Copy(t)
	st := open(t, url, postgres.Config{})
	create(t, st, "a")
	other := pgtest.Connect(t, url)
	tx, err := other.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tx.Exec(t.Context(), `UPDATE sessions SET lease_ended = true WHERE id = 'a'`); err != nil { // a release under way
		t.Fatal(err)
	}
	posted := make(chan error, 1)
	go func() {
		posted <- st.Post(t.Context(), ref("a"), store.Item{ID: "i", Kind: store.ItemFollowUp, At: noon()})
	}()
	blocked(t, pgtest.Connect(t, url), other, posted)
	if items, err := st.Inbox(t.Context(), ref("a")); err != nil || len(items) != 0 {
		t.Errorf("%d items while the post waits, %v", len(items), err)
	}
	if err := tx.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := <-posted; err != nil {
		t.Fatalf("post: %v", err)
	}
	if items, err := st.Inbox(t.Context(), ref("a")); err != nil || len(items) != 1 {
		t.Errorf("%d items after the post, %v", len(items), err)
	}
}

// blocked waits until a call waits for a connection's transaction. The call
// must not end meanwhile.
func blocked(t *testing.T, watcher, by *pgx.Conn, done <-chan error) {
	t.Helper()
	for waits := false; !waits; {
		err := watcher.QueryRow(t.Context(), `SELECT EXISTS (SELECT 1 FROM pg_locks WHERE NOT granted AND $1 = ANY (pg_blocking_pids(pid)))`,
			int32(by.PgConn().PID())).Scan(&waits)
		if err != nil {
			t.Fatal(err)
		}
		select {
		case err := <-done:
			t.Fatalf("the call did not wait: %v", err)
		default:
		}
	}
}
