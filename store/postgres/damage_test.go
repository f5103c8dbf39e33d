package postgres_test

import (
	"testing"

	"github.com/holdfast-dev/holdfast/store"
	"github.com/holdfast-dev/holdfast/store/postgres/internal/pgtest"
)

// damages alter one thing each of a session, behind the store's back.
func damages(url string) map[string]func(t testing.TB, r store.Ref) {
	const sid = "(SELECT sid FROM sessions WHERE tenant = $1 AND id = $2)"
	replaced := func(column, from, to string) string {
		return column + " = convert_to(replace(convert_from(" + column + ", 'UTF8'), '" + from + "', '" + to + "'), 'UTF8')"
	}
	all := map[string]func(t testing.TB, r store.Ref){}
	for name, statement := range map[string]string{
		"a body":                    "UPDATE changes SET " + replaced("body", "message 1", "message 9") + " WHERE log = " + sid,
		"a kind":                    "UPDATE changes SET kind = 'name_changed' WHERE seq = 3 AND log = " + sid,
		"a version":                 "UPDATE changes SET version = 9 WHERE seq = 3 AND log = " + sid,
		"two rows swapped":          "UPDATE changes c SET body = o.body FROM changes o WHERE o.log = c.log AND o.seq = 5 - c.seq AND c.seq IN (2, 3) AND c.log = " + sid,
		"a row of another session":  "UPDATE changes c SET body = o.body FROM changes o WHERE o.log <> c.log AND o.seq = 3 AND c.seq = 3 AND c.log = " + sid,
		"a row in the middle gone":  "DELETE FROM changes WHERE seq = 3 AND log = " + sid,
		"the last row gone":         "DELETE FROM changes WHERE seq = 6 AND log = " + sid,
		"the tail gone":             "DELETE FROM changes WHERE seq > 4 AND log = " + sid,
		"a row too many":            "INSERT INTO changes (log, seq, version, kind, body) SELECT log, seq + 1, version, kind, body FROM changes WHERE seq = 6 AND log = " + sid,
		"an older row":              "UPDATE sessions SET version = 4, seq = 4, last_seq = 4 WHERE sid = " + sid,
		"another time":              "UPDATE sessions SET updated_at = updated_at + interval '1 second' WHERE sid = " + sid,
		"another count of messages": "UPDATE sessions SET messages = messages + 1 WHERE sid = " + sid,
		"another window":            "UPDATE sessions SET shown_from = ARRAY[3::bigint] WHERE sid = " + sid,
		"a commit's actor":          "UPDATE changes SET actor = 'mallory' WHERE version = 3 AND sealed_at IS NOT NULL AND log = " + sid,
		"a commit's time":           "UPDATE changes SET sealed_at = sealed_at + interval '1 second' WHERE version = 3 AND log = " + sid,
		"a commit gone":             "DELETE FROM seals WHERE log = " + sid,
		"an empty commit":           "UPDATE seals SET action = 'other' WHERE log = " + sid,
		"a head":                    "UPDATE snapshots SET " + replaced("head", "tester", "taster") + " WHERE sid = " + sid,
		"a head of another place":   "UPDATE snapshots SET seq = seq + 1 WHERE sid = " + sid,
		"a header":                  "UPDATE sessions SET " + replaced("header", `"status":"active"`, `"status":"failed"`) + " WHERE sid = " + sid,
		"an item":                   "UPDATE inbox SET " + replaced("body", "hello", "hullo") + " WHERE sid = " + sid,
	} {
		all[name] = func(t testing.TB, r store.Ref) { pgtest.Exec(t, url, statement, r.Tenant, r.ID) }
	}
	return all
}
