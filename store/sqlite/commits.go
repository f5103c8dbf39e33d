package sqlite

import (
	"context"
	"database/sql"
	"math"

	"github.com/holdfast-dev/holdfast/store"
)

// selectCommits reads the commits of log ?1 after version ?2, up to and with
// ?3. Versions follow the order of the log, so the heads around them say where
// in it to look.
const selectCommits = `SELECT commit_id, version, first_seq, seq, action, actor, sealed_at FROM changes
WHERE log = ?1 AND version > ?2 AND version <= ?3 AND first_seq IS NOT NULL
	AND seq > coalesce((SELECT max(seq) FROM heads WHERE log = ?1 AND version <= ?2), 0)
	AND seq <= coalesce((SELECT min(seq) FROM heads WHERE log = ?1 AND version >= ?3), ?4)
UNION ALL
SELECT id, version, first_seq, last_seq, action, actor, at FROM commits WHERE log = ?1 AND version > ?2 AND version <= ?3
ORDER BY version`

// commitsIn reads commits after a version, up to and with another. Each
// version has one, so a limit bounds the versions to look at.
func (c *conn) commitsIn(ctx context.Context, log, after, upTo int64, limit int) ([]store.CommitInfo, error) {
	if most := int64(limit); upTo-after > most {
		upTo = after + most
	}
	var commits []store.CommitInfo
	err := c.each(ctx, selectCommits, []any{log, after, upTo, int64(math.MaxInt64)}, func(rows *sql.Rows) error {
		var info store.CommitInfo
		var at int64
		err := rows.Scan(&info.ID, &info.Version, &info.FirstSeq, &info.LastSeq, &info.Action, &info.Actor, &at)
		info.At = instant(at)
		commits = append(commits, info)
		return err
	})
	return commits, err
}

// hasCommit reports whether a version is there and ends with a change.
func (c *conn) hasCommit(ctx context.Context, log, version, last int64) (bool, error) {
	var one int
	return c.one(ctx, `SELECT 1 FROM changes WHERE log = ?1 AND seq = ?3 AND version = ?2 AND first_seq IS NOT NULL
UNION ALL SELECT 1 FROM commits WHERE log = ?1 AND version = ?2 AND last_seq = ?3`, []any{log, version, last}, &one)
}

// addCommit writes a commit that no change carries.
func (c *conn) addCommit(ctx context.Context, log int64, i store.CommitInfo) error {
	_, err := c.exec(ctx, "INSERT INTO commits (log, version, id, first_seq, last_seq, action, actor, at) VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
		log, i.Version, i.ID, i.FirstSeq, i.LastSeq, i.Action, i.Actor, micros(i.At))
	return err
}
