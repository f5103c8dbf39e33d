package postgres

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/store"
)

// statement is SQL with named parameters, parsed once. The driver's own named
// parameters are parsed at every call, which slows a save down.
type statement struct {
	sql   string
	names []string // of $1, $2, …
}

var parameter = regexp.MustCompile(`@[a-z_0-9]+`)

// named is a statement whose parameters are written @name.
func named(sql string) statement {
	var st statement
	st.sql = parameter.ReplaceAllStringFunc(sql, func(name string) string {
		at := slices.Index(st.names, name[1:])
		if at < 0 {
			at = len(st.names)
			st.names = append(st.names, name[1:])
		}
		return "$" + strconv.Itoa(at+1)
	})
	return st
}

// fewChanges is how many changes a write passes as single parameters. More are
// passed as arrays, which cost the server more to unnest than to store.
const fewChanges = 4

// writing is a statement that writes changes, in one form for each number of
// them up to fewChanges and one for more.
type writing [fewChanges + 2]statement

// appending is a writing from the part before its changes, which has a row s
// if the write is admitted, and the part after.
func appending(before, after string) writing {
	var w writing
	for n := range w {
		w[n] = named(before + writeChanges(n, false) + after)
	}
	return w
}

// committing is an appending whose changes are committed.
func committing(before, after string) writing {
	var w writing
	for n := range w {
		w[n] = named(before + writeChanges(n, true) + after)
	}
	return w
}

// of returns the statement for this number of changes.
func (w *writing) of(changes int) statement { return w[min(changes, fewChanges+1)] }

// The columns of a commit and their values.
const (
	commitColumns = `, first_seq, write_id, commit_id, action, actor, sealed_at`
	commitValues  = `, @first_seq::bigint, @write::uuid, @commit_id::bytea, @action::bytea, @actor::bytea, @updated_at::timestamptz`
	commitNulls   = `, NULL::bigint, NULL::uuid, NULL::bytea, NULL::bytea, NULL::bytea, NULL::timestamptz`
)

// writeChanges is the part of a statement that adds log rows. The last one
// carries the commit. Where there is none, the commit has a row of its own.
func writeChanges(n int, commit bool) string {
	switch {
	case n == 0 && commit:
		return `, committed AS (INSERT INTO seals (log, version, last_seq, first_seq, write_id, id, action, actor, at)
			SELECT s.sid, @of_version::bigint, @seq::bigint` + commitValues + ` FROM s)`
	case n == 0:
		return ""
	}
	columns, last, before := "", "", ""
	if commit {
		columns, last, before = commitColumns, commitValues, commitNulls
	}
	insert := `, changed AS (INSERT INTO changes (log, version, seq, kind, body` + columns + `)
		SELECT s.sid, @of_version::bigint, `
	switch {
	case n == 1:
		return insert + `@base::bigint + 1, @kind_1::text, @body_1::bytea` + last + ` FROM s)`
	case n <= fewChanges:
		rows := make([]string, n)
		for i := range rows {
			rows[i] = fmt.Sprintf(`(@base::bigint + %d, @kind_%[1]d::text, @body_%[1]d::bytea`, i+1) + before + `)`
		}
		rows[n-1] = strings.TrimSuffix(rows[n-1], before+`)`) + last + `)`
		return insert + `c.* FROM s, (VALUES ` + strings.Join(rows, ", ") + `) AS c)`
	}
	rows := `unnest(@kinds::text[], @bodies::bytea[]) WITH ORDINALITY AS c (kind, body, n)`
	if !commit {
		return insert + `@base::bigint + c.n, c.kind, c.body FROM s, ` + rows + `)`
	}
	// All but the last have no commit.
	return insert + `@base::bigint + c.n, c.kind, c.body, f.first_seq, f.write_id, f.commit_id, f.action, f.actor, f.sealed_at FROM s, ` + rows + `
		LEFT JOIN (SELECT cardinality(@kinds::text[])` + last + `) AS f (n, first_seq, write_id, commit_id, action, actor, sealed_at) ON f.n = c.n)`
}

// addChanges adds log rows of a version, or of the tail that will be one. They
// are numbered from the base on and follow the record with this sum; the sum of
// the last one is returned.
func addChanges(args pgx.NamedArgs, records []session.Record, version int64, last store.Sum) (store.Sum, error) {
	var kinds []string
	var bodies [][]byte
	weight := int64(0)
	for i, r := range records {
		var body []byte
		var err error
		if body, last, err = encodeBody(last, r, version); err != nil {
			return 0, err
		}
		weight += int64(len(body))
		if len(records) > fewChanges {
			kinds, bodies = append(kinds, r.Change.Kind()), append(bodies, body)
			continue
		}
		n := strconv.Itoa(i + 1)
		args["kind_"+n], args["body_"+n] = r.Change.Kind(), body
	}
	args["kinds"], args["bodies"], args["weight"] = kinds, bodies, weight
	args["last_sum"] = int64(last)
	return last, nil
}

// values are a statement's parameters in order, each taken from the first of
// several sets that has it.
func (st statement) values(sets ...pgx.NamedArgs) []any {
	values := make([]any, len(st.names))
	for i, name := range st.names {
		for _, set := range sets {
			if value, ok := set[name]; ok {
				values[i] = value
				break
			}
		}
	}
	return values
}
