package postgres_test

import (
	"errors"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/store"
	"github.com/holdfast-dev/holdfast/store/postgres"
	"github.com/holdfast-dev/holdfast/store/postgres/internal/pgtest"
)

func ann() store.Owner {
	return store.Owner{Tenant: session.DefaultTenant, Scope: store.ScopeUser, Name: "ann"}
}

func memo(text string) store.Memo {
	return store.Memo{Key: "drink", Value: []byte(`"` + text + `"`), At: noon()}
}

func remember(t testing.TB, st *postgres.Store, m store.Memo) store.Entry {
	t.Helper()
	e, err := st.Remember(t.Context(), ann(), m)
	if err != nil {
		t.Fatalf("remember: %v", err)
	}
	return e
}

// newest is the version of ann's drink that is there.
func newest(t testing.TB, st *postgres.Store) int64 {
	t.Helper()
	e, _, err := st.Entry(t.Context(), ann(), "drink", 0)
	if err != nil {
		t.Fatalf("read entry: %v", err)
	}
	return e.Version
}

func TestRemember_lostConnectionNeverGivesAWrongAnswer(t *testing.T) {
	t.Parallel()
	behind := func(t *testing.T, f fault) (*proxy, *postgres.Store, *postgres.Store) {
		t.Helper()
		direct := migrated.Copy(t)
		p := newProxy(t, direct, mark, f)
		st := open(t, p.url(direct), postgres.Config{MaxConns: 2})
		remember(t, st, memo("water"))
		return p, st, open(t, direct, postgres.Config{})
	}
	t.Run("answer lost, outcome learnt", func(t *testing.T) {
		t.Parallel()
		p, st, other := behind(t, dropAnswer)
		e := remember(t, st, memo(mark))
		wantStruck(t, p)
		if e.Version != 2 || !e.CreatedAt.Equal(noon()) || newest(t, other) != 2 {
			t.Errorf("answered %+v where version %d is stored, want 2", e, newest(t, other))
		}
	})
	t.Run("request lost, outcome unknown", func(t *testing.T) {
		t.Parallel()
		p, st, other := behind(t, dropRequest)
		_, err := st.Remember(t.Context(), ann(), memo(mark))
		wantStruck(t, p)
		var u *session.UnknownOutcomeError
		if !errors.As(err, &u) || u.ID != "drink" {
			t.Errorf("error %v, want UnknownOutcomeError of the key", err)
		}
		if v := newest(t, other); v != 1 {
			t.Errorf("version %d is stored, want 1", v)
		}
	})
	for name, f := range map[string]fault{"call repeated after a lost answer": dropAnswer, "call repeated after a lost request": dropRequest} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p, st, other := behind(t, f)
			p.mayRepeat.Store(true)
			m := memo(mark)
			m.SessionID, m.CallID = "s", "call"
			e := remember(t, st, m)
			wantStruck(t, p)
			if e.Version != 2 || string(e.Value) != string(m.Value) || newest(t, other) != 2 {
				t.Errorf("answered %+v where version %d is stored, want 2", e, newest(t, other))
			}
		})
	}
}

func TestForget_lostAnswerIsGivenAgain(t *testing.T) {
	t.Parallel()
	direct := migrated.Copy(t)
	p := newProxy(t, direct, mark, dropAnswer)
	p.mayRepeat.Store(true)
	other := open(t, direct, postgres.Config{})
	m := memo("water")
	m.Key = mark
	remember(t, other, m)
	st := open(t, p.url(direct), postgres.Config{MaxConns: 2})
	version := int64(1)
	if was, err := st.Forget(t.Context(), ann(), mark, &version); err != nil || !was {
		t.Errorf("forget: %t, %v, want that there was one", was, err)
	}
	wantStruck(t, p)
}

func TestForgetAll_lostAnswerIsGivenAgain(t *testing.T) {
	t.Parallel()
	direct := migrated.Copy(t)
	p := newProxy(t, direct, "commit\x00", dropAnswer)
	p.mayRepeat.Store(true)
	remember(t, open(t, direct, postgres.Config{}), memo("water"))
	st := open(t, p.url(direct), postgres.Config{MaxConns: 2})
	if n, err := st.ForgetAll(t.Context(), ann(), false); err != nil || n != 1 {
		t.Errorf("forgot %d, %v, want 1", n, err)
	}
	wantStruck(t, p)
}

// underWay is a transaction that has written the next version of ann's drink
// and has not ended.
func underWay(t *testing.T, conn *pgx.Conn) pgx.Tx {
	t.Helper()
	tx, err := conn.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tx.Exec(t.Context(), `UPDATE memories SET version = version + 1`); err != nil {
		t.Fatal(err)
	}
	if _, err := tx.Exec(t.Context(), `INSERT INTO memory_versions SELECT mid, version, $1::bytea, now(), '', gen_random_uuid() FROM memories`,
		postgres.StoredValue("drink", `"late"`)); err != nil {
		t.Fatal(err)
	}
	return tx
}

func TestForget_takesAVersionUnderWayToo(t *testing.T) {
	t.Parallel()
	url := migrated.Copy(t)
	st, other := open(t, url, postgres.Config{}), pgtest.Connect(t, url)
	remember(t, st, memo("water"))
	tx := underWay(t, other)
	forgot := make(chan error, 1)
	go func() {
		_, err := st.Forget(t.Context(), ann(), "drink", nil)
		forgot <- err
	}()
	blocked(t, pgtest.Connect(t, url), other, forgot)
	if err := tx.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := <-forgot; err != nil {
		t.Fatalf("forget: %v", err)
	}
	var left int
	if err := other.QueryRow(t.Context(), `SELECT count(*) FROM memory_versions`).Scan(&left); err != nil || left != 0 {
		t.Errorf("%d versions are left, %v", left, err)
	}
	if e := remember(t, st, memo("tea")); e.Version != 3 {
		t.Errorf("versions go on with %d, want 3", e.Version)
	}
}

func TestForget_comparesWithAVersionUnderWay(t *testing.T) {
	t.Parallel()
	url := migrated.Copy(t)
	st, other := open(t, url, postgres.Config{}), pgtest.Connect(t, url)
	version := remember(t, st, memo("water")).Version
	tx := underWay(t, other)
	forgot := make(chan error, 1)
	go func() {
		_, err := st.Forget(t.Context(), ann(), "drink", &version)
		forgot <- err
	}()
	blocked(t, pgtest.Connect(t, url), other, forgot)
	if err := tx.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	var conflict *session.ConflictError
	if err := <-forgot; !errors.As(err, &conflict) || conflict.Want != 1 || conflict.Have != 2 || newest(t, st) != 2 {
		t.Errorf("forget: %v and version %d is there, want a conflict of 1 with 2", err, newest(t, st))
	}
}

func TestRemember_comparesWithAVersionUnderWay(t *testing.T) {
	t.Parallel()
	url := migrated.Copy(t)
	st, other := open(t, url, postgres.Config{}), pgtest.Connect(t, url)
	remember(t, st, memo("water"))
	tx := underWay(t, other)
	m := memo("tea")
	m.IfVersion = new(int64)
	*m.IfVersion = 1
	wrote := make(chan error, 1)
	go func() {
		_, err := st.Remember(t.Context(), ann(), m)
		wrote <- err
	}()
	blocked(t, pgtest.Connect(t, url), other, wrote)
	if err := tx.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	var conflict *session.ConflictError
	if err := <-wrote; !errors.As(err, &conflict) || conflict.Want != 1 || conflict.Have != 2 {
		t.Errorf("remember: %v, want a conflict of 1 with 2", err)
	}
}

// Whoever expects a version does not begin anew with the first one when the
// owner is forgotten meanwhile.
func TestRemember_besideForgetAllWritesNoFirstVersion(t *testing.T) {
	t.Parallel()
	url := migrated.Copy(t)
	st, other := open(t, url, postgres.Config{}), pgtest.Connect(t, url)
	remember(t, st, memo("water"))
	tx, err := other.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tx.Exec(t.Context(), `DELETE FROM memories`); err != nil {
		t.Fatal(err)
	}
	m := memo("tea")
	m.IfVersion = new(int64)
	*m.IfVersion = 1
	wrote := make(chan error, 1)
	go func() {
		_, err := st.Remember(t.Context(), ann(), m)
		wrote <- err
	}()
	blocked(t, pgtest.Connect(t, url), other, wrote)
	if err := tx.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	var conflict *session.ConflictError
	if err := <-wrote; !errors.As(err, &conflict) || conflict.Have != 0 || newest(t, st) != 0 {
		t.Errorf("remember: %v and version %d is there, want a conflict and none", err, newest(t, st))
	}
}

func TestEntries_goOnAfterAnyBytes(t *testing.T) {
	t.Parallel()
	st := open(t, migrated.Copy(t), postgres.Config{})
	for _, key := range []string{"a", "a b", "a/b", "a0", "b", "ÿ"} {
		m := memo("x")
		m.Key = key
		remember(t, st, m)
	}
	for after, want := range map[string]int{"": 6, "a": 5, "a\x00": 5, "a\xff": 2, "a/\x00b": 4, "\xff": 0, "\xc3": 1, "a\ufffd": 2, "b": 1} {
		entries, err := st.Entries(t.Context(), ann(), "", after, 0)
		if err != nil || len(entries) != want {
			t.Errorf("after %q: %d entries, %v, want %d", after, len(entries), err, want)
		}
	}
}
