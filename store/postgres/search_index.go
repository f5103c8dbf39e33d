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

// The index of words is filled in the background, so that a save pays nothing
// for it. It needs more space than the texts themselves and most sessions are
// never searched, so a log is indexed only after a search has read it. Each log
// has a mark of its own, up to which it is indexed. Writes to one log come one
// after the other, so a transaction that sees a change sees all before it, and
// no mark passes a change that is committed later. One mark for many logs would,
// because their transactions end in any order.
//
// A search is right wherever the marks are, because it reads what lies after
// them. So a node may lose its list of logs to index: the next search that reads
// such a log lists it again.

const (
	// quietFor is how long a node must write nothing to count as idle.
	quietFor = 500 * time.Millisecond
	// soonAfter is how long indexing waits if a search had to read a log, so that
	// the next search finds it in the index.
	soonAfter = 20 * time.Millisecond
	// lateAfter is how long indexing waits for an idle moment at most.
	lateAfter = 30 * time.Second
	// indexLastFor is how long Close may index what is left.
	indexLastFor = time.Second

	indexLogs     = 64  // in one transaction
	indexMessages = 500 // of one log in one transaction

	searchAtOnce = 2000 // sessions, where all are searched
)

// indexing lists what this node will index.
type indexing struct {
	quiet, late, soon time.Duration // quietFor, lateAfter and soonAfter except in tests
	wanted            chan struct{} // holds one
	atOnce            int           // searchAtOnce except in tests

	mu        sync.Mutex
	refs      map[store.Ref]bool // guarded by mu: sessions that were written to
	writtenAt time.Time          // guarded by mu: when the last of them was
	logs      map[int64]bool     // guarded by mu: logs a search had to read
}

// want lists sessions that were written to. Only the first one wakes whoever
// indexes: to be woken at every save costs the save more than the list.
func (x *indexing) want(refs ...store.Ref) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.writtenAt = time.Now()
	if x.refs == nil {
		x.refs = map[store.Ref]bool{}
		x.wake()
	}
	for _, r := range refs {
		x.refs[r] = true
	}
}

// idleFor returns for how long nothing was written.
func (x *indexing) idleFor() time.Duration {
	x.mu.Lock()
	defer x.mu.Unlock()
	return time.Since(x.writtenAt)
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
	x.wake()
}

func (x *indexing) wake() {
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

// fillIndex indexes what is wanted whenever the node is idle, until the store is
// closed, and then what can be done quickly: a program that runs only for a
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

// awaitQuiet waits until the node is idle, but never longer than late, and only
// for a moment if a search had to read a log.
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
		case <-quiet.C:
			left := x.quiet - x.idleFor()
			if left <= 0 {
				return
			}
			quiet.Reset(left)
		case <-late.C:
			return
		case <-ctx.Done():
			return
		}
	}
}

// indexWanted indexes what is wanted. If it is interrupted, that stays wanted.
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

// logsOf returns the logs of sessions that are indexed at all.
func (s *Store) logsOf(ctx context.Context, refs []store.Ref) (logs []int64, err error) {
	if len(refs) == 0 {
		return nil, nil
	}
	tenants, ids := make([]string, len(refs)), make([]string, len(refs))
	for i, r := range refs {
		tenants[i], ids[i] = r.Tenant, r.ID
	}
	err = s.once(ctx, func(ctx context.Context, conn *pgx.Conn) error {
		rows, err := conn.Query(ctx, `SELECT s.sid FROM unnest($1::text[], $2::text[]) AS r (tenant, id)
			JOIN sessions s ON s.tenant = r.tenant AND s.id = r.id JOIN indexed i ON i.log = s.sid`, tenants, ids)
		if err == nil {
			logs, err = pgx.CollectRows(rows, pgx.RowTo[int64])
		}
		return err
	})
	return logs, err
}

// indexSome indexes a bounded number of changes of some logs in one transaction
// and returns the logs that have more. It skips logs that another node has
// locked to index or delete them.
func (s *Store) indexSome(ctx context.Context, logs []int64) (more []int64, err error) {
	err = s.once(ctx, func(ctx context.Context, conn *pgx.Conn) error {
		// Each statement must see what was committed before the locks were taken.
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

// claim locks those logs that nobody has locked, until the transaction ends.
// Deleting a session takes the same locks, so nothing is indexed while it is
// deleted.
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
		CROSS JOIN LATERAL (SELECT c.seq, CASE WHEN c.kind = '`+messageAdded+`' AND `+notForgotten+` THEN c.body END AS body FROM changes c
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

// passage is a message in the index.
type passage struct {
	Log, Seq int64
	At       time.Time
	Trace    bool
	Words    []int64
}

// passageOf returns what is indexed of a row of a log: a message that can be
// read and has words.
func passageOf(log, seq int64, body []byte) (passage, bool) {
	if body == nil {
		return passage{}, false
	}
	m, ok := messageOf(body)
	if !ok {
		return passage{}, false
	}
	words := indexKeys(log, store.Words(store.MessageText(m)))
	return passage{Log: log, Seq: seq, At: m.CreatedAt, Trace: m.Trace, Words: words}, len(words) > 0
}

// passageRows are passages as columns.
type passageRows struct {
	logs, seqs []int64
	ats        []time.Time
	traces     []bool
	words      []string // arrays in PostgreSQL's text form
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

// hashes returns the 32-bit hashes of words, sorted, each once.
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

// indexKeys returns the words of a log as the index has them: hashes that begin
// with the log's number.
func indexKeys(log int64, words []string) []int64 {
	list := hashes(words)
	for i := range list {
		list[i] |= log << 32
	}
	return list
}
