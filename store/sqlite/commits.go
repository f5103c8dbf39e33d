package sqlite

import (
	"context"
	"database/sql"
	"fmt"
	"math"

	"github.com/google/uuid"

	"github.com/holdfast-dev/holdfast/store"
)

// selectCommits reads the commits of log ?1 after version ?2, up to and with
// ?3. Versions follow the order of the log, so the heads around them say where
// in it to look.
const selectCommits = `SELECT commit_id, commit_uuid, version, first_seq, seq, action, actor, sealed_at, sum, commit_sum FROM changes
WHERE log = ?1 AND version > ?2 AND version <= ?3 AND first_seq IS NOT NULL
	AND seq > coalesce((SELECT max(seq) FROM heads WHERE log = ?1 AND version <= ?2), 0)
	AND seq <= coalesce((SELECT min(seq) FROM heads WHERE log = ?1 AND version >= ?3), ?4)
UNION ALL
SELECT id, NULL, version, first_seq, last_seq, action, actor, at,
	coalesce((SELECT c.sum FROM changes c WHERE c.log = ?1 AND c.seq = last_seq), 0), sum FROM commits WHERE log = ?1 AND version > ?2 AND version <= ?3
ORDER BY version`

// commitsIn reads commits after a version, up to and including another. Each
// version has one commit, so a limit bounds the versions too.
func (c *conn) commitsIn(ctx context.Context, id string, log, after, upTo int64, limit int) ([]store.CommitInfo, error) {
	if most := int64(limit); upTo-after > most {
		upTo = after + most
	}
	var commits []store.CommitInfo
	err := c.each(ctx, selectCommits, []any{log, after, upTo, int64(math.MaxInt64)}, func(rows *rows) error {
		var info store.CommitInfo
		var text sql.NullString
		var packed sql.RawBytes
		var at, last, sum int64
		if err := rows.Scan(&text, &packed, &info.Version, &info.FirstSeq, &info.LastSeq, &info.Action, &info.Actor, &at, &last, &sum); err != nil {
			return scanError(id, "commits", err)
		}
		var err error
		info.ID, err = joinID(text, packed)
		info.At = instant(at)
		if err == nil && commitSum(store.Sum(last), info) != sum {
			err = fmt.Errorf("commit %d does not match its checksum", info.Version)
		}
		commits = append(commits, info)
		return store.Unreadable(id, "commits", err)
	})
	return commits, err
}

// splitID returns the two columns of a commit's id: a UUID in its usual spelling
// is stored as bytes, any other id as text.
func splitID(id string) (text, packed any) {
	if u, err := uuid.Parse(id); err == nil && u.String() == id {
		return nil, u[:]
	}
	return id, nil
}

// joinID is the reverse of splitID.
func joinID(text sql.NullString, packed []byte) (string, error) {
	if text.Valid {
		return text.String, nil
	}
	u, err := uuid.FromBytes(packed)
	if err != nil {
		return "", fmt.Errorf("the id of a commit cannot be read: %w", err)
	}
	return u.String(), nil
}

// hasCommit reports whether a version is there and ends with a change.
func (c *conn) hasCommit(ctx context.Context, log, version, last int64) (bool, error) {
	var one int
	return c.one(ctx, `SELECT 1 FROM changes WHERE log = ?1 AND seq = ?3 AND version = ?2 AND first_seq IS NOT NULL
UNION ALL SELECT 1 FROM commits WHERE log = ?1 AND version = ?2 AND last_seq = ?3`, []any{log, version, last}, &one)
}

// addCommit writes a commit that no change carries.
func (c *conn) addCommit(ctx context.Context, w row, i store.CommitInfo) error {
	_, err := c.exec(ctx, "INSERT INTO commits (log, version, id, first_seq, last_seq, action, actor, at, sum) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
		w.log, i.Version, i.ID, i.FirstSeq, i.LastSeq, i.Action, i.Actor, micros(i.At), commitSum(w.lastSum, i))
	return err
}
