package postgres_test

import (
	"bytes"
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/store"
	"github.com/holdfast-dev/holdfast/store/postgres"
	"github.com/holdfast-dev/holdfast/store/postgres/internal/pgtest"
)

func check(t testing.TB, st *postgres.Store) []string {
	t.Helper()
	problems, err := st.Check(context.WithoutCancel(t.Context()), nil)
	if err != nil {
		t.Fatalf("check: %v", err)
	}
	return problems
}

func repair(t testing.TB, st *postgres.Store) []string {
	t.Helper()
	repaired, err := st.Repair(context.WithoutCancel(t.Context()), nil)
	if err != nil {
		t.Fatalf("repair: %v", err)
	}
	return repaired
}

// family is a store with a long session that has an inbox and an open tail,
// part of which is refused, a fork of a purged parent, and memories; all of it
// indexed but for the fork's last message.
func family(t *testing.T, url string) *postgres.Store {
	t.Helper()
	st := busy(t, url)
	s := create(t, st, "s")
	for i := range 40 {
		s = save(t, st, s, fmt.Sprintf("message %d", i))
	}
	for _, id := range []string{"taken", "given back", "waiting"} {
		if err := st.Post(t.Context(), ref("s"), store.Item{ID: id, Kind: store.ItemFollowUp, At: noon()}); err != nil {
			t.Fatal(err)
		}
	}
	s = appended(t, st, s, session.InboxTaken{ItemID: "taken", ItemKind: "follow_up"}, message("in the tail"))
	gone := appended(t, st, s, message("refused"), session.InboxTaken{ItemID: "given back", ItemKind: "follow_up"})
	refused, err := session.DiscardTail(s, s.Seq()+1, gone.Seq(), noon())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := st.Append(t.Context(), refused, store.Append{}); err != nil {
		t.Fatal(err)
	}
	parent := save(t, st, create(t, st, "parent"), "shared")
	child := fork(t, st, parent, "child")
	save(t, st, parent, "not shared")
	if err := st.Delete(t.Context(), ref("parent"), 0); err != nil {
		t.Fatal(err)
	}
	remember(t, st, memo("water"))
	remember(t, st, memo("tea"))
	m := memo("gone")
	m.Key = "gone"
	remember(t, st, m)
	if _, err := st.Forget(t.Context(), ann(), "gone", nil); err != nil {
		t.Fatal(err)
	}
	if _, err := st.Reindex(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	save(t, st, child, "own")
	return st
}

func message(text string) session.Change {
	return session.MessageAdded{Message: session.Message{ID: text, Role: session.RoleUser, Content: session.Text(text)}}
}

func appended(t *testing.T, st *postgres.Store, s session.Session, changes ...session.Change) session.Session {
	t.Helper()
	next, err := s.With(noon(), changes...)
	if err != nil {
		t.Fatal(err)
	}
	if s, err = st.Append(t.Context(), next, store.Append{}); err != nil {
		t.Fatalf("append: %v", err)
	}
	return s
}

// truth is all that no repair may alter.
func truth(t *testing.T, conn *pgx.Conn) string {
	t.Helper()
	var all []string
	for _, table := range []string{"changes", "commits", "lineage", "inbox", "keys", "memory_versions", "memory_calls"} {
		columns := "*"
		if table == "inbox" {
			columns = "sid, arrival, item_id, body"
		}
		var text string
		err := conn.QueryRow(t.Context(), `SELECT coalesce(string_agg(r::text, E'\n' ORDER BY r::text), '') FROM (SELECT `+columns+` FROM `+table+`) r`).Scan(&text)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, table, text)
	}
	return strings.Join(all, "\n")
}

// everything is all that is kept.
func everything(t *testing.T, conn *pgx.Conn) string {
	t.Helper()
	all := []string{truth(t, conn)}
	for _, table := range []string{"sessions", "listing", "snapshots", "discards", "takings", "inbox", "passages", "indexed", "memories"} {
		var text string
		if err := conn.QueryRow(t.Context(), `SELECT coalesce(string_agg(r::text, E'\n' ORDER BY r::text), '') FROM `+table+` r`).Scan(&text); err != nil {
			t.Fatal(err)
		}
		all = append(all, table, text)
	}
	return strings.Join(all, "\n")
}

func damage(t *testing.T, conn *pgx.Conn, sql string) {
	t.Helper()
	tag, err := conn.Exec(t.Context(), sql)
	if err != nil || tag.RowsAffected() == 0 {
		t.Fatalf("%s: %v rows, %v", sql, tag.RowsAffected(), err)
	}
}

func TestCheck_findsNothingInHealthyData(t *testing.T) {
	t.Parallel()
	url := migrated.Copy(t)
	st := family(t, url)
	if problems := check(t, st); len(problems) > 0 {
		t.Errorf("found %q", problems)
	}
	conn := pgtest.Connect(t, url)
	before := everything(t, conn)
	if repaired := repair(t, st); len(repaired) > 0 {
		t.Errorf("repaired %q", repaired)
	}
	if everything(t, conn) != before {
		t.Error("a repair with nothing to repair has written")
	}
}

func TestCheck_findsNothingInMigratedData(t *testing.T) {
	t.Parallel()
	dumps, err := filepath.Glob(filepath.Join(corpus, "schema*.sql.gz"))
	if err != nil || len(dumps) == 0 {
		t.Fatalf("no corpus: %v", err)
	}
	for _, dump := range dumps {
		t.Run(filepath.Base(dump), func(t *testing.T) {
			t.Parallel()
			st := open(t, restored(t, dump), postgres.Config{})
			if problems := check(t, st); len(problems) > 0 {
				t.Errorf("found %q", problems)
			}
			if n, err := st.Reindex(t.Context(), nil); err != nil || n == 0 {
				t.Errorf("%d are in the index, %v", n, err)
			}
			if problems := check(t, st); len(problems) > 0 {
				t.Errorf("found with an index %q", problems)
			}
		})
	}
}

func TestRepair_mendsWhatFollowsFromTheLog(t *testing.T) {
	t.Parallel()
	for what, c := range map[string]struct{ statement, want string }{
		"a head altered":     {`UPDATE snapshots SET head = convert_to(replace(convert_from(head, 'UTF8'), 'tester', 'taster'), 'UTF8') WHERE version = 1`, "the head of version 1 is not"},
		"a head cut":         {`UPDATE snapshots SET head = substr(head, 9)`, "session s of default: the head of version"},
		"a head misplaced":   {`UPDATE snapshots SET seq = seq + 1 WHERE version = 1`, "the head of version 1 is not"},
		"no first head":      {`DELETE FROM snapshots WHERE version = 1`, "there is no head of version 1"},
		"no head at all":     {`DELETE FROM snapshots`, "there is no head of version 1"},
		"a head of nothing":  {`INSERT INTO snapshots SELECT sid, 9999, seq, head FROM snapshots WHERE version = 1`, "a head of version 9999 belongs to no version"},
		"another head":       {`UPDATE sessions SET snap_version = snap_version + 1`, "which head is the newest"},
		"a miscounted fold":  {`UPDATE sessions SET unfolded = unfolded + 1`, "which head is the newest"},
		"a header altered":   {`UPDATE sessions SET header = h, header_sum = sha256(h) FROM (SELECT sid AS of, convert_to(replace(convert_from(header, 'UTF8'), 'tester', 'taster'), 'UTF8') AS h FROM sessions) n WHERE of = sid`, "the header is not"},
		"a header cut":       {`UPDATE sessions SET header = substr(header, 9)`, "the header is not"},
		"a header's sum":     {`UPDATE sessions SET header_sum = ''`, "the header is not"},
		"foreign tail rows":  {`UPDATE sessions SET tail_rows = '{"task":null,"workflow":{"status":"running"}}'`, "the header is not"},
		"an old version":     {`UPDATE sessions SET version = version - 1 WHERE version > 1`, "where the log ends"},
		"an end too early":   {`UPDATE sessions SET last_seq = last_seq - 1`, "where the log ends"},
		"another agent":      {`UPDATE sessions SET agent_id = 'other'`, "where the log ends"},
		"a tail not counted": {`UPDATE sessions SET live = 0 WHERE live > 0`, "what the open tail is"},
		"at work":            {`UPDATE sessions SET at_work = NOT at_work`, "what the open tail is"},
		"running":            {`UPDATE sessions SET running = NOT running`, "what the open tail is"},
		"no window":          {`UPDATE sessions SET shown_from = '{}', shown_to = '{}'`, "where the window's messages are"},
		"another status":     {`UPDATE listing SET status = 'deleted'`, "copies of the header"},
		"another user":       {`UPDATE listing SET user_id = 'ann'`, "copies of the header"},
		"another time":       {`UPDATE sessions SET updated_at = updated_at + interval '1 microsecond'`, "copies of the header"},
		"another slot":       {`UPDATE listing SET updated_slot = updated_slot + 1`, "copies of the header"},
		"another count":      {`UPDATE sessions SET messages = messages + 1`, "copies of the header"},
		"a call that waits":  {`UPDATE sessions SET pending = NOT pending`, "copies of the header"},
		"a tag of nothing":   {`INSERT INTO tags SELECT tenant, 7, sid FROM sessions`, "its metadata is not found"},
		"not tagged":         {`UPDATE listing SET tagged = false`, "its metadata is not found"},
		"not listed":         {`DELETE FROM listing`, "it is in no listing"},
		"an older format":    {`UPDATE sessions SET format = 0`, "copies of the header"},
		"no refusal":         {`DELETE FROM discards`, "the discarded changes"},
		"a refusal too much": {`INSERT INTO discards SELECT sid, 2, 3 FROM sessions`, "the discarded changes"},
		"a refusal twice":    {`INSERT INTO discards SELECT * FROM discards`, "the discarded changes"},
		"an item given back": {`UPDATE inbox SET taken = false`, `item "taken"`},
		"an item taken":      {`UPDATE inbox SET taken = true WHERE item_id = 'waiting'`, `item "waiting"`},
		"a taking lost":      {`DELETE FROM takings`, `item "taken"`},
		"a word too few":     {`UPDATE passages SET words = words[2:]`, "are not those of the index"},
		"a word too much":    {`UPDATE passages SET words = words || 1::bigint`, "are not those of the index"},
		"another moment":     {`UPDATE passages SET at = at + interval '1 second'`, "are not those of the index"},
		"a trace":            {`UPDATE passages SET trace = NOT trace`, "are not those of the index"},
		"a message missing":  {`DELETE FROM passages WHERE seq = 2`, "are not those of the index"},
		"words of nothing":   {`INSERT INTO passages SELECT log, 1, at, trace, words FROM passages WHERE seq = 2`, "words of change 1, and should have none"},
		"words of no log":    {`INSERT INTO passages SELECT 999, seq, at, trace, words FROM passages WHERE seq > 2`, "log 999"},
		"a mark too far":     {`UPDATE indexed SET upto = upto + 1000`, "the index reaches change 1"},
		"no mark":            {`DELETE FROM indexed`, "and should have none"},
		"an entry's words":   {`UPDATE memories SET words = '{1}'`, "entry drink of user ann of default: the words"},
		"forgotten words":    {`UPDATE memories SET words = '{1}' WHERE NOT present`, "entry gone of user ann of default: the words"},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			url := migrated.Copy(t)
			st, conn := family(t, url), pgtest.Connect(t, url)
			want, log := load(t, st, "s"), truth(t, conn)
			damage(t, conn, c.statement)
			problems := check(t, st)
			if !strings.Contains(strings.Join(problems, "\n"), c.want) {
				t.Fatalf("found %q, want one that says %q", problems, c.want)
			}
			repaired := repair(t, st)
			slices.Sort(problems)
			slices.Sort(repaired)
			if !slices.Equal(repaired, problems) {
				t.Errorf("repaired %q, want %q", repaired, problems)
			}
			if left := check(t, st); len(left) > 0 {
				t.Errorf("left after the repair: %q", left)
			}
			if truth(t, conn) != log {
				t.Error("the repair has altered the log")
			}
			same(t, load(t, st, "s"), want)
			wantFound(t, st, "child", "shared own", "own", "shared")
			save(t, st, load(t, st, "s"), "after the repair")
			if left := check(t, st); len(left) > 0 {
				t.Errorf("found after a save: %q", left)
			}
		})
	}
}

func same(t *testing.T, got, want session.Session) {
	t.Helper()
	a, err := got.MarshalJSON()
	if err != nil {
		t.Fatal(err)
	}
	b, err := want.MarshalJSON()
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(a, b) || session.Base(got) != session.Base(want) || got.HasTail() != want.HasTail() {
		t.Errorf("loaded\n%s, want\n%s", a, b)
	}
}

func TestRepair_leavesEveryByteOfWhatItCannotMend(t *testing.T) {
	t.Parallel()
	for what, c := range map[string]struct{ statement, want string }{
		"a change altered":     {`UPDATE changes SET body = convert_to(replace(convert_from(body, 'UTF8'), '"seq":1,', '"seq":9,'), 'UTF8') WHERE seq = 1`, "record 1: it does not match its checksum"},
		"a change cut":         {`UPDATE changes SET body = substr(body, 5) WHERE seq = 2`, "record 2: there is no checksum before it"},
		"a change missing":     {`DELETE FROM changes WHERE seq = 5`, "record 5: it is missing"},
		"a change of the tail": {`DELETE FROM changes c USING sessions s WHERE c.log = s.sid AND c.seq = s.last_seq - 1 AND s.live > 0`, "it is missing"},
		"another kind":         {`UPDATE changes SET kind = 'name_changed' WHERE seq = 2`, "record 2: it does not follow"},
		"another version":      {`UPDATE changes SET version = version + 1 WHERE seq = (SELECT max(last_seq) FROM sessions)`, "it does not follow the record before it"},
		"a commit missing":     {`UPDATE changes SET sealed_at = NULL WHERE version = 2`, "does not follow the one before it"},
		"a commit misplaced":   {`UPDATE changes SET first_seq = first_seq + 1 WHERE version = 2 AND sealed_at IS NOT NULL`, "that of version 2: it does not match its checksum"},
		"a newer program":      {`UPDATE sessions SET format = 99`, "format version"},
		"no lineage":           {`DELETE FROM lineage`, "it has no log"},
		"a log of nobody":      {`INSERT INTO changes VALUES (999, 1, 1, 'x', '')`, "log 999 belongs to no session"},
		"a commit of nobody":   {`INSERT INTO seals SELECT 999, version, first_seq, last_seq, write_id, id, action, actor, at FROM commits WHERE version > 2`, "commits of log 999"},
		"an ancestor's loss":   {`DELETE FROM changes WHERE log NOT IN (SELECT sid FROM sessions)`, "session child of default"},
		"an ancestor's change": {`INSERT INTO changes SELECT c.log, 1, 1, c.kind, c.body FROM changes c JOIN lineage l ON l.sid = c.log AND l.log = c.log AND l.after_seq > 0 LIMIT 1`, "outside its log"},
		"a newest entry":       {`DELETE FROM memory_versions WHERE version = 2`, "its newest version, 2, is not there"},
		"a later entry":        {`UPDATE memory_versions SET version = 3 WHERE version = 1`, "later than the newest"},
		"a forgotten entry":    {`UPDATE memories SET present = false, words = '{}'`, "it is forgotten, and has versions"},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			url := migrated.Copy(t)
			st, conn := family(t, url), pgtest.Connect(t, url)
			damage(t, conn, c.statement)
			problems := check(t, st)
			if !strings.Contains(strings.Join(problems, "\n"), c.want) {
				t.Fatalf("found %q, want one that says %q", problems, c.want)
			}
			log := truth(t, conn)
			repair(t, st)
			if truth(t, conn) != log {
				t.Error("the repair has altered the log")
			}
			if left := check(t, st); !strings.Contains(strings.Join(left, "\n"), c.want) {
				t.Errorf("found after the repair %q, want one that says %q", left, c.want)
			}
		})
	}
}

// A session whose log cannot be folded keeps even what could be told to be
// wrong with its row.
func TestRepair_doesNotTouchASessionThatCannotBeFolded(t *testing.T) {
	t.Parallel()
	url := migrated.Copy(t)
	st, conn := family(t, url), pgtest.Connect(t, url)
	damage(t, conn, `UPDATE changes SET body = substr(body, 5) WHERE kind = 'session_created'`)
	damage(t, conn, `UPDATE sessions SET live = 7, at_work = false`)
	damage(t, conn, `UPDATE snapshots SET head = substr(head, 5)`)
	before := everything(t, conn)
	if repaired := repair(t, st); len(repaired) > 0 {
		t.Errorf("repaired %q", repaired)
	}
	if everything(t, conn) != before {
		t.Error("the repair has written")
	}
}

// What is wrong is looked for once more when nobody can write any more: here
// somebody has put it right meanwhile, and gone on.
func TestRepair_looksAgainUnderTheLock(t *testing.T) {
	t.Parallel()
	url := migrated.Copy(t)
	st, other := busy(t, url), pgtest.Connect(t, url)
	s := save(t, st, create(t, st, "a"), "tea")
	damage(t, other, `UPDATE sessions SET live = 7, at_work = true`)
	tx, err := other.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tx.Exec(t.Context(), `UPDATE sessions SET live = 0, at_work = false`); err != nil {
		t.Fatal(err)
	}
	result := make(chan error, 1)
	var repaired []string
	go func() {
		var err error
		repaired, err = st.Repair(t.Context(), nil)
		result <- err
	}()
	blocked(t, pgtest.Connect(t, url), other, result)
	if err := tx.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := <-result; err != nil || len(repaired) > 0 {
		t.Errorf("repaired %q, %v, want nothing", repaired, err)
	}
	save(t, st, s, "more")
}

func TestReindex_buildsTheIndexAnewAndCountsIt(t *testing.T) {
	t.Parallel()
	url := migrated.Copy(t)
	st, conn := family(t, url), pgtest.Connect(t, url)
	damage(t, conn, `UPDATE passages SET words = '{}'`)
	damage(t, conn, `INSERT INTO passages SELECT 999, seq, at, trace, words FROM passages WHERE seq > 2`)
	damage(t, conn, `UPDATE memories SET words = '{}'`)
	wantFound(t, st, "s", "tail")
	// 40 messages, two in the tail, two of the fork, and one entry.
	if n, err := st.Reindex(t.Context(), nil); err != nil || n != 45 {
		t.Errorf("%d are in the index, %v, want 45", n, err)
	}
	if problems := check(t, st); len(problems) > 0 {
		t.Errorf("found %q", problems)
	}
	wantFound(t, st, "s", "tail", "in the tail")
	wantFound(t, st, "s", "refused")
}

func TestReindex_takesLongLogsInSteps(t *testing.T) {
	t.Parallel()
	url := migrated.Copy(t)
	st, conn := busy(t, url), pgtest.Connect(t, url)
	s := fresh(t, "long")
	for i := range 1200 {
		s = said(t, s, fmt.Sprint("tea ", i))
	}
	s, err := st.Create(t.Context(), s, store.Commit{ID: "create", At: noon()})
	if err != nil {
		t.Fatal(err)
	}
	if n, err := st.Reindex(t.Context(), nil); err != nil || n != 1200 {
		t.Errorf("%d are in the index, %v, want 1200", n, err)
	}
	wantMark(t, conn, "long", s.Seq(), 1200)
	wantFound(t, st, "long", "1111", "tea 1111")
}

func TestWarnings_nameSettingsThatCostData(t *testing.T) {
	t.Parallel()
	warned := func(url string) bool {
		warnings, err := open(t, url, postgres.Config{}).Warnings(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return strings.Contains(strings.Join(warnings, "\n"), "synchronous_commit = off")
	}
	url := migrated.Copy(t)
	if warned(url) {
		t.Error("a warning of a setting that is on")
	}
	if !warned(pgtest.With(t, url, "synchronous_commit", "off")) {
		t.Error("no warning of synchronous_commit = off")
	}
}
