package postgres

import (
	"context"
	"embed"
	"fmt"
	"io/fs"
	"strconv"

	"github.com/jackc/pgx/v5"

	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/store"
)

// schema holds the migrations, numbered from 1 without a gap. A released one
// is never altered.
//
//go:embed schema/*.sql
var schema embed.FS

// migrationLock lets one process migrate at a time. It belongs to a transaction
// and not to a connection, so that it works behind a pooler.
const migrationLock = 0x686f6c6466617374

// wordsSchema is the schema since which words are folded and stemmed. Its
// migration begins the index anew.
const wordsSchema = 12

// migrations are the statements of each migration, in order.
func migrations() ([]string, error) {
	names, err := fs.Glob(schema, "schema/*.sql")
	if err != nil {
		return nil, err
	}
	texts := make([]string, len(names))
	for i, name := range names {
		text, err := schema.ReadFile(name)
		if err != nil {
			return nil, err
		}
		texts[i] = string(text)
	}
	return texts, nil
}

// migrate brings the schema up to date, all of it or nothing. A schema that
// is newer than this program is a NewerFormatError and stays as it is.
func migrate(ctx context.Context, conn *pgx.Conn, steps []string, p store.Progress) error {
	have, err := schemaVersion(ctx, conn, len(steps))
	if err != nil || have == len(steps) {
		return err
	}
	// Each statement must see what others committed while this waited for the lock.
	return pgx.BeginTxFunc(ctx, conn, pgx.TxOptions{IsoLevel: pgx.ReadCommitted}, func(tx pgx.Tx) error {
		// A timeout made for requests must not end a migration of a large store, nor the wait for one.
		if _, err := tx.Exec(ctx, `SET LOCAL statement_timeout = 0`); err != nil {
			return err
		}
		if _, err := tx.Exec(ctx, `SELECT pg_advisory_xact_lock($1)`, int64(migrationLock)); err != nil {
			return err
		}
		have, err := schemaVersion(ctx, tx.Conn(), len(steps)) // another process may have migrated meanwhile
		if err != nil {
			return err
		}
		if _, err := tx.Exec(ctx, `CREATE TABLE IF NOT EXISTS holdfast_schema (version integer PRIMARY KEY, applied_at timestamptz NOT NULL DEFAULT now())`); err != nil {
			return err
		}
		for n := have + 1; n <= len(steps); n++ {
			p.Report(n-have-1, len(steps)-have)
			if _, err := tx.Conn().PgConn().Exec(ctx, steps[n-1]).ReadAll(); err != nil {
				return fmt.Errorf("migration %d: %w", n, err)
			}
			if n == sumsSchema {
				if err := addMissingSums(ctx, tx); err != nil {
					return fmt.Errorf("migration %d: %w", n, err)
				}
			}
			if n == wordsSchema {
				if err := indexMemories(ctx, tx); err != nil {
					return fmt.Errorf("migration %d: %w", n, err)
				}
			}
			if _, err := tx.Exec(ctx, `INSERT INTO holdfast_schema (version) VALUES ($1)`, n); err != nil {
				return err
			}
		}
		if err := tagMissing(ctx, tx); err != nil {
			return fmt.Errorf("tag the sessions of an earlier program: %w", err)
		}
		p.Report(len(steps)-have, len(steps)-have)
		return nil
	})
}

// schemaVersion is the number of the last migration applied, 0 in an empty
// database. More than this program knows is NewerFormatError.
func schemaVersion(ctx context.Context, conn *pgx.Conn, known int) (int, error) {
	// This asks the catalogue, because to_regclass answers from a cache that is
	// not refreshed within a transaction.
	var there bool
	err := conn.QueryRow(ctx, `SELECT EXISTS (SELECT 1 FROM pg_tables WHERE schemaname = current_schema() AND tablename = 'holdfast_schema')`).Scan(&there)
	if err != nil || !there {
		return 0, err
	}
	var have int
	err = conn.QueryRow(ctx, `SELECT coalesce(max(version), 0) FROM holdfast_schema`).Scan(&have)
	if err != nil {
		return 0, err
	}
	if have > known {
		return 0, &session.NewerFormatError{What: "schema version", Have: strconv.Itoa(have), Know: strconv.Itoa(known)}
	}
	return have, nil
}

// migrateSchema brings the schema up to date on a connection of the pool.
func (s *Store) migrateSchema(ctx context.Context) error {
	steps, err := migrations()
	if err != nil {
		return err
	}
	return s.retry(unbounded(ctx), func(ctx context.Context, conn *pgx.Conn) error { return migrate(ctx, conn, steps, s.config.OnMigrate) })
}
