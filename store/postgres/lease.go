package postgres

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/store"
	"github.com/holdfast-dev/holdfast/store/admission"
)

// leaseRow is the newest lease of a session, alive or not.
type leaseRow struct {
	token  int64 // 0: there never was one
	holder []byte
	until  time.Time
	ended  bool // released
	live   bool // by the database's clock
}

// columns are the destinations of leaseColumns.
func (l *leaseRow) columns() []any { return []any{&l.token, &l.holder, &l.until, &l.ended, &l.live} }

const leaseColumns = `lease_token, lease_holder, lease_until, lease_ended, ` + held

func (l leaseRow) lease() admission.Lease {
	return admission.Lease{Lease: store.Lease{Token: l.token, Holder: string(l.holder), Until: session.Instant(l.until)}, Released: l.ended}
}

func (l leaseRow) isLive() bool { return l.live }

// The new end of a lease, counted from the database's clock.
const leaseEnd = dbNow + ` + @length::bigint * interval '1 microsecond'`

const acquireLease = `UPDATE sessions SET lease_token = nextval('lease_tokens'), lease_holder = @holder, lease_until = ` + leaseEnd + `, lease_ended = false,
		lease_id = @lease_id::uuid
	WHERE tenant = @tenant AND id = @id AND NOT ` + held + ` RETURNING ` + leaseColumns

// Acquire takes the lease. If the connection is lost and it cannot be found out
// whether the lease was taken, the lease runs out by itself.
func (s *Store) Acquire(ctx context.Context, r store.Ref, holder string, length time.Duration) (store.Lease, error) {
	if err := admission.CheckLength(length); err != nil {
		return store.Lease{}, err
	}
	if err := s.usable(ctx, r.Check()); err != nil {
		return store.Lease{}, err
	}
	args := pgx.NamedArgs{"holder": []byte(holder), "length": length.Microseconds(), "lease_id": newID()}
	for range maxTries {
		taken, err := s.lease(ctx, "acquire", r, safeToRepeat, acquireLease, args)
		switch {
		case err == nil:
			return taken.lease().Lease, nil
		case !errors.Is(err, pgx.ErrNoRows):
			return s.taken(ctx, r, args, err)
		}
		have, err := s.newest(ctx, r)
		if err != nil {
			return store.Lease{}, err
		}
		if err := have.lease().Admit(r.ID, 0, have.isLive); err != nil {
			return store.Lease{}, err
		}
	}
	return store.Lease{}, fmt.Errorf("acquire lease of session %s: it was taken and freed %d times meanwhile, try again", r.ID, maxTries)
}

const (
	findLease = `SELECT ` + leaseColumns + ` FROM sessions WHERE tenant = @tenant AND id = @id AND lease_id = @lease_id::uuid`
	dropLease = `UPDATE sessions SET lease_ended = true
		WHERE tenant = @tenant AND id = @id AND lease_id = @lease_id::uuid RETURNING ` + leaseColumns
)

// taken looks for a lease after the answer to Acquire was lost. A caller that
// still waits gets it; if the caller has given up, the lease is ended.
func (s *Store) taken(ctx context.Context, r store.Ref, args pgx.NamedArgs, failed error) (store.Lease, error) {
	statement, gone := findLease, ctx.Err() != nil
	if gone {
		statement = dropLease
	}
	l, err := s.findTaken(ctx, r, args, statement)
	s.announce(r)
	if err != nil || gone {
		return store.Lease{}, failed
	}
	return l.lease().Lease, nil
}

// findTaken runs a statement that finds a lease by the id it was acquired with,
// even if the caller has given up.
func (s *Store) findTaken(ctx context.Context, r store.Ref, args pgx.NamedArgs, sql string) (leaseRow, error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), resolveFor)
	defer cancel()
	args["tenant"], args["id"], args["now"] = r.Tenant, r.ID, s.clock()
	var l leaseRow
	err := s.retry(ctx, func(ctx context.Context, conn *pgx.Conn) error {
		var batch pgx.Batch
		// The lock waits for the acquiring statement if that still runs.
		batch.Queue(`SELECT 1 FROM sessions WHERE tenant = @tenant AND id = @id FOR UPDATE`, args)
		batch.Queue(sql, args)
		results := conn.SendBatch(ctx, &batch)
		_, err := results.Exec()
		if err == nil {
			err = results.QueryRow().Scan(l.columns()...)
		}
		return closeBatch(results, err)
	})
	return l, err
}

// lease runs a statement that changes a lease and returns it; pgx.ErrNoRows
// where it changed nothing.
func (s *Store) lease(ctx context.Context, name string, r store.Ref, worth func(error) bool, sql string, args pgx.NamedArgs) (leaseRow, error) {
	args["tenant"], args["id"], args["now"] = r.Tenant, r.ID, s.clock()
	var l leaseRow
	none := false
	err := s.retryWhile(ctx, worth, func() error {
		return s.once(ctx, func(ctx context.Context, conn *pgx.Conn) error {
			s.config.OnWrite("before " + name)
			err := conn.QueryRow(ctx, sql, args).Scan(l.columns()...)
			s.config.OnWrite("after " + name)
			if none = errors.Is(err, pgx.ErrNoRows); none {
				return nil
			}
			return err
		})
	})
	switch {
	case err != nil:
		return leaseRow{}, err
	case none:
		return leaseRow{}, pgx.ErrNoRows
	}
	s.announce(r)
	return l, nil
}

// newest reads the newest lease, live or not.
func (s *Store) newest(ctx context.Context, r store.Ref) (leaseRow, error) {
	var l leaseRow
	err := s.row(ctx, r, `SELECT `+leaseColumns+` FROM sessions`, l.columns()...)
	return l, err
}

const renewLease = `UPDATE sessions SET lease_until = ` + leaseEnd + `
	WHERE tenant = @tenant AND id = @id AND lease_token = @token AND NOT lease_ended RETURNING ` + leaseColumns

// Renew prolongs the lease.
func (s *Store) Renew(ctx context.Context, r store.Ref, l store.Lease, length time.Duration) (store.Lease, error) {
	if err := admission.CheckLength(length); err != nil {
		return store.Lease{}, err
	}
	if err := s.usable(ctx, r.Check()); err != nil {
		return store.Lease{}, err
	}
	renewed, err := s.lease(ctx, "renew", r, transient, renewLease, pgx.NamedArgs{"token": l.Token, "length": length.Microseconds()})
	if !errors.Is(err, pgx.ErrNoRows) {
		return renewed.lease().Lease, err
	}
	// A lost lease stays lost: tokens only grow and a released one is not reused.
	have, err := s.newest(ctx, r)
	if err != nil && !errors.Is(err, session.ErrNotFound) {
		return store.Lease{}, err
	}
	return store.Lease{}, have.lease().CheckToken(r.ID, l.Token)
}

const releaseLease = `UPDATE sessions SET lease_ended = true
	WHERE tenant = @tenant AND id = @id AND lease_token = @token AND NOT lease_ended RETURNING ` + leaseColumns

// Release ends the lease.
func (s *Store) Release(ctx context.Context, r store.Ref, l store.Lease) error {
	if err := s.usable(ctx, r.Check()); err != nil {
		return err
	}
	_, err := s.lease(ctx, "release", r, transient, releaseLease, pgx.NamedArgs{"token": l.Token})
	if errors.Is(err, pgx.ErrNoRows) {
		return nil
	}
	return err
}

// Holding is the live lease.
func (s *Store) Holding(ctx context.Context, r store.Ref) (store.Lease, bool, error) {
	if err := s.usable(ctx, r.Check()); err != nil {
		return store.Lease{}, false, err
	}
	l, err := s.newest(ctx, r)
	if err != nil || !l.live {
		return store.Lease{}, false, err
	}
	return l.lease().Lease, true, nil
}
