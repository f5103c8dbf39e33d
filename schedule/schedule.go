// Package schedule sends messages at given times: to a session, or to a new
// session each time.
//
// Any number of processes may fire the same schedules. Each firing happens once:
// it posts an inbox item, or creates a session, whose id follows from the
// schedule and the time, so whoever comes second changes nothing.
package schedule

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/holdfast-dev/holdfast"
	"github.com/holdfast-dev/holdfast/internal/table"
	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/store"
)

// CatchUp is what to do about times that passed while no process was there.
type CatchUp string

// The ways to catch up.
const (
	Skip CatchUp = "skip" // leave out what is more than a minute late
	One  CatchUp = "one"  // once for all of them
	All  CatchUp = "all"  // once for each, the oldest first
)

// Tenant is the tenant that schedules are kept in. None may belong to it.
const Tenant = "holdfast-schedules"

const (
	late      = time.Minute
	mostFired = 100 // of one schedule in one look
	maxText   = 64 << 10
	maxID     = 64
)

// Schedule says when which message is sent.
type Schedule struct {
	ID     string `json:"id"`
	Label  string `json:"label,omitempty"`
	Tenant string `json:"tenant"`
	UserID string `json:"userId,omitempty"`

	Cron    string  `json:"cron"`
	Zone    string  `json:"zone"` // of the times in Cron, such as Europe/Berlin; UTC by default
	CatchUp CatchUp `json:"catchUp"`

	// SessionID gets the message; or each message goes to a new session of Agent.
	SessionID string              `json:"sessionId,omitempty"`
	Agent     *session.Definition `json:"agent,omitempty"`
	Text      string              `json:"text"`

	Paused    bool       `json:"paused,omitempty"`
	Next      time.Time  `json:"next"`
	Last      *time.Time `json:"last,omitempty"` // that was fired
	Problem   string     `json:"problem,omitempty"`
	CreatedAt time.Time  `json:"createdAt"`
}

// Schedules creates, lists and fires schedules. It is safe for concurrent use.
type Schedules struct {
	rt    *holdfast.Runtime
	table table.Table[Schedule]
	now   func() time.Time
	log   *slog.Logger
}

// New returns the schedules in the runtime's store. Now and the logger may be nil.
func New(rt *holdfast.Runtime, now func() time.Time, log *slog.Logger) *Schedules {
	if now == nil {
		now = time.Now
	}
	return &Schedules{rt: rt, table: table.New[Schedule](rt, Tenant, "schedules"), now: now, log: cmp.Or(log, slog.New(slog.DiscardHandler))}
}

// Create makes a schedule. Its id, next time and time of creation are filled in;
// a given id that exists is a ConflictError.
func (s *Schedules) Create(ctx context.Context, want Schedule, actor string) (Schedule, error) {
	want, err := s.prepare(ctx, want)
	if err != nil {
		return Schedule{}, err
	}
	all, _, err := s.table.Read(ctx)
	if err != nil {
		return Schedule{}, err
	}
	if _, exists := all[want.ID]; exists {
		return Schedule{}, &session.ConflictError{What: "schedule", ID: want.ID, Reason: session.ReasonExists}
	}
	return want, s.table.Write(ctx, want.ID, want, actor)
}

// CreateOnce is Create for a request with an idempotency key. Its id follows
// from the key; a repetition returns the schedule as the first request made it.
func (s *Schedules) CreateOnce(ctx context.Context, want Schedule, actor, key string) (Schedule, error) {
	if want.ID != "" {
		return Schedule{}, &session.InvalidError{Field: "id", Reason: "an idempotency key chooses the id; give one of the two"}
	}
	sum := sha256.Sum256([]byte(cmp.Or(want.Tenant, session.DefaultTenant) + "\n" + key))
	request := want
	want.ID = "key-" + hex.EncodeToString(sum[:16])
	want, err := s.prepare(ctx, want)
	if err != nil {
		return Schedule{}, err
	}
	made, err := s.table.WriteOnce(ctx, want.ID, want, actor, hex.EncodeToString(sum[:]), request)
	var conflict *session.ConflictError
	if errors.As(err, &conflict) {
		err = &session.ConflictError{What: "schedule", ID: want.ID, Reason: conflict.Reason}
	}
	return made, err
}

// prepare fills in a new schedule and checks it.
func (s *Schedules) prepare(ctx context.Context, want Schedule) (Schedule, error) {
	want.Tenant, want.Zone, want.CatchUp = cmp.Or(want.Tenant, session.DefaultTenant), cmp.Or(want.Zone, "UTC"), cmp.Or(want.CatchUp, Skip)
	want.ID = cmp.Or(want.ID, uuid.NewString())
	want.CreatedAt, want.Last, want.Problem = session.Instant(s.now()), nil, ""
	next, err := s.check(want)
	if err != nil {
		return Schedule{}, err
	}
	want.Next = next
	if want.SessionID != "" {
		if _, err := s.of(want).Info(ctx, want.SessionID); err != nil {
			return Schedule{}, err
		}
	}
	return want, nil
}

// check returns the next time of a schedule, or everything that is wrong with it.
func (s *Schedules) check(want Schedule) (time.Time, error) {
	found := []error{session.CheckID(want.ID), session.CheckTenant(want.Tenant)}
	refuse := func(wrong bool, field, reason string) {
		if wrong {
			found = append(found, &session.InvalidError{Field: field, Reason: reason})
		}
	}
	refuse(len(want.ID) > maxID, "id", fmt.Sprintf("is longer than %d bytes", maxID))
	refuse(strings.HasPrefix(want.Tenant, "holdfast-"), "tenant", `names that begin with "holdfast-" are reserved`)
	refuse((want.SessionID == "") == (want.Agent == nil), "sessionId", "give a session or an agent, one of the two")
	refuse(strings.TrimSpace(want.Text) == "", "text", "is blank")
	refuse(len(want.Text) > maxText, "text", fmt.Sprintf("is longer than %d bytes", maxText))
	refuse(!slices.Contains([]CatchUp{Skip, One, All}, want.CatchUp), "catchUp", fmt.Sprintf("%q is not skip, one or all", want.CatchUp))
	cron, zone, err := want.times()
	if err := errors.Join(append(found, err)...); err != nil {
		return time.Time{}, err
	}
	return session.Instant(cron.Next(s.now().In(zone))), nil
}

// times returns what the schedule's times are computed with.
func (w Schedule) times() (Cron, *time.Location, error) {
	zone, err := time.LoadLocation(w.Zone)
	if err != nil {
		err = &session.InvalidError{Field: "zone", Reason: fmt.Sprintf("%q is no time zone known here; try UTC or Europe/Berlin", w.Zone)}
	}
	cron, wrong := ParseCron(w.Cron)
	return cron, zone, errors.Join(wrong, err)
}

// List returns the schedules of a tenant, those of all tenants for "", by id.
func (s *Schedules) List(ctx context.Context, tenant string) ([]Schedule, error) {
	all, _, err := s.table.Read(ctx)
	if err != nil {
		return nil, err
	}
	list := []Schedule{}
	for _, one := range all {
		if tenant == "" || one.Tenant == tenant {
			list = append(list, one)
		}
	}
	slices.SortFunc(list, func(a, b Schedule) int { return strings.Compare(a.ID, b.ID) })
	return list, nil
}

// Get returns a schedule of a tenant, or of any tenant for "".
func (s *Schedules) Get(ctx context.Context, tenant, id string) (Schedule, error) {
	all, _, err := s.table.Read(ctx)
	if err != nil {
		return Schedule{}, err
	}
	found, ok := all[id]
	if !ok || tenant != "" && found.Tenant != tenant {
		return Schedule{}, &session.NotFoundError{What: "schedule", ID: id}
	}
	return found, nil
}

// Delete removes a schedule of a tenant.
func (s *Schedules) Delete(ctx context.Context, tenant, id, actor string) error {
	if _, err := s.Get(ctx, tenant, id); err != nil {
		return err
	}
	return s.table.Remove(ctx, id, actor)
}

// Pause stops a schedule of a tenant or lets it go on. What passes while it is
// paused is not caught up on.
func (s *Schedules) Pause(ctx context.Context, tenant, id string, paused bool, actor string) (Schedule, error) {
	if _, err := s.Get(ctx, tenant, id); err != nil {
		return Schedule{}, err
	}
	var result Schedule
	err := s.table.Update(ctx, id, actor, func(now Schedule) (Schedule, bool) {
		result = now
		if now.Paused == paused {
			return now, false
		}
		if cron, zone, err := now.times(); err == nil && !paused {
			now.Next = session.Instant(cron.Next(s.now().In(zone)))
		}
		now.Paused = paused
		result = now
		return now, true
	})
	return result, err
}

// of returns the runtime that a schedule acts through.
func (s *Schedules) of(w Schedule) *holdfast.Runtime {
	return s.rt.For(holdfast.Identity{Tenant: w.Tenant, UserID: w.UserID, Actor: "schedule:" + w.ID})
}

// Fire sends what is due and returns when the next is; the zero time if nothing
// is planned.
func (s *Schedules) Fire(ctx context.Context) (next time.Time, err error) {
	all, err := s.List(ctx, "")
	if err != nil {
		return time.Time{}, err
	}
	for _, one := range all {
		if one.Paused {
			continue
		}
		if !one.Next.After(s.now()) {
			if one, err = s.fire(ctx, one); err != nil {
				return time.Time{}, err
			}
		}
		if next.IsZero() || one.Next.Before(next) {
			next = one.Next
		}
	}
	return next, nil
}

// fire sends what is due of one schedule, and then moves it on. Whoever fires
// it at the same time sends the same, which changes nothing.
func (s *Schedules) fire(ctx context.Context, due Schedule) (Schedule, error) {
	cron, zone, err := due.times()
	if err != nil {
		return due, err
	}
	times, next := due.passed(cron, s.now().In(zone))
	problem := ""
	for _, at := range times {
		err := s.send(ctx, due, at)
		if err != nil && ctx.Err() != nil {
			return due, err
		}
		if err != nil {
			problem = fmt.Sprintf("%s: %v", at.UTC().Format(time.RFC3339), err)
			s.log.Warn("a schedule could not be fired", "schedule", due.ID, "tenant", due.Tenant, "at", at, "error", err)
		}
	}
	moved := due
	err = s.table.Update(ctx, due.ID, "schedule:"+due.ID, func(now Schedule) (Schedule, bool) {
		if moved = now; !now.Next.Equal(due.Next) {
			return now, false // another process was faster, or it was changed
		}
		moved.Next, moved.Problem = next, problem
		if len(times) > 0 {
			moved.Last = &times[len(times)-1]
		}
		return moved, true
	})
	return moved, err
}

// passed returns the times to fire for now, and the one after them.
func (w Schedule) passed(cron Cron, now time.Time) (times []time.Time, next time.Time) {
	next = w.Next.In(now.Location())
	switch w.CatchUp {
	case Skip:
		next = later(next, cron.Next(now.Add(-late)))
	case One:
		// Of a long absence only the end matters.
		for _, ago := range []time.Duration{time.Hour, 25 * time.Hour, 40 * 24 * time.Hour, 400 * 24 * time.Hour} {
			if recent := cron.Next(now.Add(-ago)); !recent.After(now) {
				next = later(next, recent)
				break
			}
		}
	}
	for !next.After(now) && (w.CatchUp == One || len(times) < mostFired) {
		times = append(times, session.Instant(next))
		next = cron.Next(next)
	}
	if w.CatchUp == One && len(times) > 0 {
		times = times[len(times)-1:]
	}
	return times, session.Instant(next)
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// send leaves the message in the inbox of its session, which is created first
// where each firing has its own. Temporary errors are returned like others: the
// schedule says what could not be sent.
func (s *Schedules) send(ctx context.Context, w Schedule, at time.Time) error {
	rt := s.of(w)
	name := fmt.Sprintf("schedule-%s-%d", w.ID, at.Unix())
	to := w.SessionID
	if w.Agent != nil {
		to = name
		_, err := rt.Create(ctx, *w.Agent, holdfast.WithID(to), holdfast.WithName(w.Label))
		if err != nil && !errors.Is(err, session.ErrConflict) {
			return err
		}
	}
	m, err := session.JSON(session.Message{ID: name, Role: session.RoleUser, Content: session.Text(w.Text)})
	if err != nil {
		return err
	}
	_, err = rt.Post(ctx, to, store.Item{ID: name, Kind: store.ItemFollowUp, Payload: session.Values{"message": m}})
	return err
}
