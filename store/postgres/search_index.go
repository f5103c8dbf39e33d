package postgres

import (
	"context"
	"fmt"
	"hash/fnv"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/holdfast-dev/holdfast/store"
)

// The index of words is filled behind the writers' backs, so that a save pays
// nothing for it. It takes more room than the texts themselves, and most
// sessions are never searched: a log is indexed from the first search on that
// has read it. Each log has a mark of its own, up to which it is indexed.
// Writes to one log come one after the other, so whoever sees a change sees
// all before it, and no mark ever passes a change that is still to appear. A
// mark over many logs would: their transactions end in any order.
//
// A search is right wherever the marks are; it reads what lies behind them.
// That is why a node may forget what it wanted to index: the next search that
// reads it wants it again.

const (
	// quietFor is how long a node writes nothing before it is taken for idle.
	quietFor = 500 * time.Millisecond
	// soonAfter is how long the index waits when a search had to read a log: the
	// next one should not.
	soonAfter = 20 * time.Millisecond
	// lateAfter is how long the index waits for that at most.
	lateAfter = 30 * time.Second
	// indexLastFor is how long Close goes on indexing what is left.
	indexLastFor = time.Second

	indexLogs     = 64  // in one transaction
	indexMessages = 500 // of one log in one transaction
)

// indexing is what this node wants to see in the index.
type indexing struct {
	quiet, late, soon time.Duration // quietFor, lateAfter and soonAfter but in tests
	wanted            chan struct{} // holds one

	mu   sync.Mutex
	refs map[store.Ref]bool // guarded by mu: sessions that were written to
	logs map[int64]bool     // guarded by mu: logs a search had to read
}

func (x *indexing) want(refs ...store.Ref) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.refs == nil {
		x.refs = map[store.Ref]bool{}
	}
	for _, r := range refs {
		x.refs[r] = true
	}
	x.call()
}

func (x *indexing) wantLogs(logs ...int64) {
	if len(logs) == 0 {
		return
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.logs == nil {
		x.logs = map[int64]bool{}
	}
	for _, log := range logs {
		x.logs[log] = true
	}
	x.call()
}

func (x *indexing) call() {
	select {
	case x.wanted <- struct{}{}:
	default:
	}
}

// missed reports that a search had to read a log.
func (x *indexing) missed() bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	return len(x.logs) > 0
}

func (x *indexing) take() (refs []store.Ref, logs []int64) {
	x.mu.Lock()
	defer x.mu.Unlock()
	refs, logs = slices.Collect(maps.Keys(x.refs)), slices.Collect(maps.Keys(x.logs))
	x.refs, x.logs = nil, nil
	return refs, logs
}

// fillIndex indexes what is wanted whenever the node is idle, until the store
// is closed, and then what is left if that is quick: a program that runs for a
// moment is never idle.
func (s *Store) fillIndex(ctx context.Context) {
	for ctx.Err() == nil {
		select {
		case <-s.index.wanted:
			s.index.awaitQuiet(ctx)
			s.indexWanted(ctx)
		case <-ctx.Done():
		}
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), indexLastFor)
	defer cancel()
	s.indexWanted(ctx)
}

// awaitQuiet waits until nothing was wanted for a while, but not for ever, and
// not long when somebody searches.
func (x *indexing) awaitQuiet(ctx context.Context) {
	quiet, late := time.NewTimer(x.quiet), time.NewTimer(x.late)
	defer quiet.Stop()
	defer late.Stop()
	for hurry := false; ; {
		if !hurry && x.missed() {
			hurry = true
			late.Reset(min(x.soon, x.late))
		}
		select {
		case <-x.wanted:
			quiet.Reset(x.quiet)
		case <-quiet.C:
			return
		case <-late.C:
			return
		case <-ctx.Done():
			return
		}
	}
}

// indexWanted indexes what is wanted. When it is interrupted, that stays so.
func (s *Store) indexWanted(ctx context.Context) {
	refs, logs := s.index.take()
	own, err := s.logsOf(ctx, refs)
	if err == nil {
		logs = append(logs, own...)
		err = s.indexAll(ctx, logs)
	}
	switch {
	case ctx.Err() != nil:
		s.index.wantLogs(logs...)
		s.index.want(refs...)
	case err != nil:
		s.config.Logger.Warn("messages were not indexed, searches read them from the log", "err", err)
	}
}

// indexAll indexes logs to their end.
func (s *Store) indexAll(ctx context.Context, logs []int64) error {
	slices.Sort(logs)
	for some := range slices.Chunk(slices.Compact(logs), indexLogs) {
		for len(some) > 0 {
			var err error
			if some, err = s.indexSome(ctx, some); err != nil {
				return err
			}
		}
	}
	return nil
}

// logsOf are the logs that sessions write, as far as they are indexed at all.
func (s *Store) logsOf(ctx context.Context, refs []store.Ref) (logs []int64, err error) {
	if len(refs) == 0 {
		return nil, nil
	}
	tenants, ids := make([]string, len(refs)), make([]string, len(refs))
	for i, r := range refs {
		tenants[i], ids[i] = r.Tenant, r.ID
	}
	err = s.once(ctx, func(conn *pgx.Conn) error {
		rows, err := conn.Query(ctx, `SELECT s.sid FROM unnest($1::text[], $2::text[]) AS r (tenant, id)
			JOIN sessions s ON s.tenant = r.tenant AND s.id = r.id JOIN indexed i ON i.log = s.sid`, tenants, ids)
		if err == nil {
			logs, err = pgx.CollectRows(rows, pgx.RowTo[int64])
		}
		return err
	})
	return logs, err
}

// indexSome moves the marks of some logs on by a bounded number of changes, in
// one transaction, and returns the logs that have more. Logs that another node
// has in hand, to index or to delete them, are left to it.
func (s *Store) indexSome(ctx context.Context, logs []int64) (more []int64, err error) {
	err = s.once(ctx, func(conn *pgx.Conn) error {
		// Each statement must see what was committed before the claim.
		return pgx.BeginTxFunc(ctx, conn, pgx.TxOptions{IsoLevel: pgx.ReadCommitted}, func(tx pgx.Tx) error {
			claimed, err := claim(ctx, tx, logs)
			if err != nil || len(claimed) == 0 {
				return err
			}
			more, err = indexClaimed(ctx, tx, claimed)
			return err
		})
	})
	return more, err
}

// claim takes the locks of logs that nobody holds, until the transaction ends.
// Deleting a session takes the same ones: nothing is indexed that goes away.
func claim(ctx context.Context, tx pgx.Tx, logs []int64) ([]int64, error) {
	rows, err := tx.Query(ctx, `SELECT log FROM unnest($1::bigint[]) AS g (log) WHERE pg_try_advisory_xact_lock(`+logLock+` # log)`, logs)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, pgx.RowTo[int64])
}

// indexClaimed indexes the next changes of logs and returns those that may
// have more.
func indexClaimed(ctx context.Context, tx pgx.Tx, logs []int64) (more []int64, err error) {
	rows, err := tx.Query(ctx, `SELECT g.log, c.seq, c.body FROM unnest($1::bigint[]) AS g (log) LEFT JOIN indexed i ON i.log = g.log
		CROSS JOIN LATERAL (SELECT c.seq, CASE WHEN c.kind = '`+messageAdded+`' THEN c.body END AS body FROM changes c
			WHERE c.log = g.log AND c.seq > coalesce(i.upto, 0) ORDER BY c.seq LIMIT $2) c`, logs, indexMessages)
	if err != nil {
		return nil, err
	}
	var found passageRows
	marks, counts := map[int64]int64{}, map[int64]int{}
	var log, seq int64
	var body []byte
	_, err = pgx.ForEachRow(rows, []any{&log, &seq, &body}, func() error {
		marks[log] = max(marks[log], seq)
		if counts[log]++; counts[log] == indexMessages {
			more = append(more, log)
		}
		if p, ok := passageOf(log, seq, body); ok {
			found.add(p)
		}
		return nil
	})
	if err != nil || len(marks) == 0 {
		return nil, err
	}
	if err := found.insert(ctx, tx); err != nil {
		return nil, err
	}
	logs = slices.Collect(maps.Keys(marks))
	upto := make([]int64, len(logs))
	for i, log := range logs {
		upto[i] = marks[log]
	}
	_, err = tx.Exec(ctx, `INSERT INTO indexed AS i (log, upto) SELECT * FROM unnest($1::bigint[], $2::bigint[])
		ON CONFLICT (log) DO UPDATE SET upto = greatest(i.upto, excluded.upto)`, logs, upto)
	return more, err
}

// passage is a message as the index has it.
type passage struct {
	Log, Seq int64
	At       time.Time
	Trace    bool
	Words    []int64
}

// passageOf is what of a row of the log is indexed: of a message that can be
// read and has words, those.
func passageOf(log, seq int64, body []byte) (passage, bool) {
	if body == nil {
		return passage{}, false
	}
	m, ok := messageOf(body)
	if !ok {
		return passage{}, false
	}
	words := numbers(log, store.Words(store.MessageText(m)))
	return passage{Log: log, Seq: seq, At: m.CreatedAt, Trace: m.Trace, Words: words}, len(words) > 0
}

// passageRows are passages as columns.
type passageRows struct {
	logs, seqs []int64
	ats        []time.Time
	traces     []bool
	words      []string // as the database writes lists of numbers
}

func (r *passageRows) add(p passage) {
	r.logs, r.seqs, r.ats, r.traces = append(r.logs, p.Log), append(r.seqs, p.Seq), append(r.ats, p.At), append(r.traces, p.Trace)
	r.words = append(r.words, "{"+strings.Trim(strings.ReplaceAll(fmt.Sprint(p.Words), " ", ","), "[]")+"}")
}

func (r *passageRows) insert(ctx context.Context, tx pgx.Tx) error {
	if len(r.logs) == 0 {
		return nil
	}
	_, err := tx.Exec(ctx, `INSERT INTO passages (log, seq, at, trace, words)
		SELECT log, seq, at, trace, words::bigint[] FROM unnest($1::bigint[], $2::bigint[], $3::timestamptz[], $4::boolean[], $5::text[]) AS p (log, seq, at, trace, words)
		ON CONFLICT (log, seq) DO UPDATE SET at = excluded.at, trace = excluded.trace, words = excluded.words`,
		r.logs, r.seqs, r.ats, r.traces, r.words)
	return err
}

// hashes are words as numbers of 32 bits, sorted, each once.
func hashes(words []string) []int64 {
	numbers := make([]int64, len(words))
	for i, word := range words {
		h := fnv.New32a()
		_, _ = h.Write([]byte(word))
		numbers[i] = int64(h.Sum32())
	}
	slices.Sort(numbers)
	return slices.Compact(numbers)
}

// numbers are words of a log as the index has them.
func numbers(log int64, words []string) []int64 {
	list := hashes(words)
	for i := range list {
		list[i] |= log << 32
	}
	return list
}
