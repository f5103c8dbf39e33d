package postgres

import (
	"context"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/holdfast-dev/holdfast/store"
)

// New keys drop old ones. A key whose tail is not sealed yet is never dropped.
var dropOldKeys = named(`DELETE FROM keys k USING ` + mine + `
	WHERE k.sid = m.sid AND k.version < @of_version::bigint AND k.used_at < ` + dbNow + ` - interval '` + strconv.Itoa(int(store.KeepKeys/time.Hour)) + ` hours'`)

// Only the first use of a key counts.
var insertKeys = named(`INSERT INTO keys (sid, name, fingerprint, version, seq, used_at)
	SELECT m.sid, k.name, k.fingerprint, @of_version::bigint, @used_by::bigint, ` + dbNow + `
	FROM ` + mine + `, unnest(@names::text[], @fingerprints::bytea[]) AS k (name, fingerprint)
	ON CONFLICT (sid, name) DO NOTHING`)

// addKeys adds the uses of keys by the write's version, or by the tail that
// becomes it.
func (w *write) addKeys(keys []store.Key, seq int64) {
	if len(keys) == 0 {
		return
	}
	names, fingerprints := make([]string, len(keys)), make([][]byte, len(keys))
	for i, k := range keys {
		names[i], fingerprints[i] = k.Name, []byte(k.Fingerprint)
	}
	args := pgx.NamedArgs{"used_by": seq, "names": names, "fingerprints": fingerprints}
	w.add(dropOldKeys, args)
	w.add(insertKeys, args)
}

// Key reports the first use of a key.
func (s *Store) Key(ctx context.Context, r store.Ref, name string) (store.KeyUse, bool, error) {
	if err := s.usable(ctx, r.Check()); err != nil {
		return store.KeyUse{}, false, err
	}
	var fingerprint []byte
	var version *int64
	err := s.retry(ctx, func(ctx context.Context, conn *pgx.Conn) error {
		return found(r, conn.QueryRow(ctx, `SELECT k.fingerprint, CASE WHEN k.version > s.version THEN 0 ELSE k.version END
			FROM sessions s LEFT JOIN keys k ON k.sid = s.sid AND k.name = $3 WHERE s.tenant = $1 AND s.id = $2`,
			r.Tenant, r.ID, column(name)).Scan(&fingerprint, &version))
	})
	if err != nil || version == nil {
		return store.KeyUse{}, false, err
	}
	return store.KeyUse{Fingerprint: string(fingerprint), Version: *version}, true, nil
}
