package postgres

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/holdfast-dev/holdfast/session"
)

// setTags makes the stored tags those of a version. It writes only what differs.
var setTags = named(`WITH m AS (SELECT sid, tenant FROM ` + mine + `),
	gone AS (DELETE FROM tags t USING m WHERE t.sid = m.sid AND t.tag <> ALL (@tags::bigint[])),
	known AS (UPDATE listing l SET tagged = @tagged FROM m WHERE l.sid = m.sid AND l.tagged <> @tagged)
	INSERT INTO tags (tenant, tag, sid) SELECT m.tenant, t.tag, m.sid FROM m, unnest(@tags::bigint[]) AS t (tag) ON CONFLICT DO NOTHING`)

// tagArgs returns the tags of a version.
func tagArgs(sealed session.Session) pgx.NamedArgs {
	tags, ok := session.Tags(sealed)
	return pgx.NamedArgs{"tags": tags, "tagged": ok}
}

// addTags adds the statement that stores the tags of a version, if they may
// differ from those of the version before.
func (w *write) addTags(next, sealed session.Session) {
	if session.MayRetag(next) {
		w.add(setTags, tagArgs(sealed))
	}
}

// addTagFilter adds that a session has the tags of the metadata asked for, or
// is not tagged.
func (c *conditions) addTagFilter(metadata map[string]string) {
	var wanted []int64
	for key, value := range metadata {
		tags := session.TagsOf(key, value)
		wanted = append(wanted, tags[:]...)
	}
	for i := 0; i < len(wanted); i += 2 {
		a, b := fmt.Sprint("tag_", i), fmt.Sprint("tag_", i+1)
		c.args[a], c.args[b] = wanted[i], wanted[i+1]
		c.texts = append(c.texts, fmt.Sprintf(`l.sid IN (SELECT t.sid FROM tags t WHERE t.tenant = @tenant AND t.tag IN (@%s, @%s)
			UNION ALL SELECT u.sid FROM listing u WHERE u.tenant = @tenant AND NOT u.tagged)`, a, b))
	}
}

// untagged is a session of an earlier program.
type untagged struct {
	SID   int64
	ID    string
	Head  []byte
	Since [][]byte
}

// tagMissing tags the sessions of earlier programs. One that cannot be read
// stays without tags, so that listings find it and say so.
func tagMissing(ctx context.Context, tx pgx.Tx) error {
	for after := int64(0); ; {
		rows, err := tx.Query(ctx, `SELECT s.sid, s.id, `+sinceSnapshot+` FROM listing l JOIN sessions s ON s.sid = l.sid
			WHERE NOT l.tagged AND s.sid > $1 ORDER BY s.sid LIMIT $2`, after, sumBatch)
		if err != nil {
			return err
		}
		found, err := pgx.CollectRows(rows, pgx.RowToStructByPos[untagged])
		if err != nil || len(found) == 0 {
			return err
		}
		for _, u := range found {
			after = u.SID
			last, err := foldSince(u.ID, u.Head, u.Since)
			if errors.Is(err, session.ErrCorrupt) || errors.Is(err, session.ErrNewerFormat) {
				continue
			}
			if err == nil {
				err = replaceTags(ctx, tx, u.SID, last)
			}
			if err != nil {
				return err
			}
		}
	}
}

// replaceTags stores the tags of a session's last version.
func replaceTags(ctx context.Context, tx pgx.Tx, sid int64, last session.Session) error {
	args := tagArgs(last)
	args["sid"] = sid
	for _, sql := range []string{
		`DELETE FROM tags WHERE sid = @sid`,
		`INSERT INTO tags (tenant, tag, sid) SELECT s.tenant, t.tag, s.sid FROM sessions s, unnest(@tags::bigint[]) AS t (tag) WHERE s.sid = @sid`,
		`UPDATE listing SET tagged = @tagged WHERE sid = @sid`,
	} {
		if _, err := tx.Exec(ctx, sql, args); err != nil {
			return err
		}
	}
	return nil
}

// compareTags compares the stored tags with those of the last version.
func (e *examination) compareTags(ctx context.Context, tx pgx.Tx) error {
	args := tagArgs(e.last)
	args["sid"], args["tenant"] = e.sid, e.ref.Tenant
	var same bool
	err := tx.QueryRow(ctx, `SELECT ARRAY(SELECT tag FROM tags WHERE sid = @sid AND tenant = @tenant ORDER BY tag) = @tags::bigint[]
		AND NOT EXISTS (SELECT 1 FROM tags WHERE sid = @sid AND tenant <> @tenant)
		AND NOT EXISTS (SELECT 1 FROM listing WHERE sid = @sid AND tagged <> @tagged)`, args).Scan(&same)
	if err == nil && !same {
		e.wrong("its metadata is not found as the log makes it")
	}
	return err
}

func (e *examination) repairTags(ctx context.Context, tx pgx.Tx) error {
	return replaceTags(ctx, tx, e.sid, e.last)
}
