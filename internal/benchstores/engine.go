package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/holdfast-dev/holdfast/store"

	"github.com/holdfast-dev/holdfast/internal/benchmark"
)

// engine is a kind of durable store.
type engine struct {
	name string

	// open creates an empty store.
	open func(context.Context, setting) (*openedStore, error)
	// floor makes the simplest durable log without the store, for a number of
	// concurrent clients.
	floor func(ctx context.Context, clients int) (floor, error)
	// commits reports whether a point of the write hook is one commit.
	commits func(point string) bool
	// rateTarget is the target for the rate of 64 sessions against that of one.
	rateTarget *Target

	chapters []measurement
}

// setting holds the options for opening a store.
type setting struct {
	onWrite func(point string)
	clients int // who will use it at once
}

// durable lists the abilities that are measured.
type durable interface {
	store.Store
	store.Logs
	store.Forks
	store.Wakes
}

// openedStore is a store and its place on the disk.
type openedStore struct {
	durable
	file string // the database, where it is one file

	// bytes returns its size on the disk. It may close the store.
	bytes func(context.Context) (int64, error)
	// settle does what the database does on its own a minute after many writes, if
	// it does anything.
	settle func(context.Context) error
	// remove closes the store and deletes its files.
	remove func() error
}

// floor appends to its own logs with as little work as possible.
type floor interface {
	append(ctx context.Context, client int, body []byte) error
	close(ctx context.Context) error
}

// bench is one engine at one scale.
type bench struct {
	engine
	scale
	text *benchmark.TextSource
}

// measurement measures one aspect of a store.
type measurement struct {
	name string
	run  func(context.Context, *bench) ([]Result, error)
}

// scale says how much to measure.
type scale struct {
	saves    int           // rounds of single writes
	reads    int           // rounds of single reads
	heavy    int           // rounds of what takes long
	slice    time.Duration // of counting concurrent writes
	slices   int
	long     int // messages of a long session
	last     int // saves at its end that are compared with first ones
	whole    int // messages of a session that is read whole
	few      int // sessions of a short listing
	sessions int // sessions of a long one
	kept     int // saves whose room on the disk is measured
	turns    int // of each of several writers
}

func scaleOf(quick bool) scale {
	s := scale{
		saves: 2_000, reads: 400, heavy: 60, slice: 300 * time.Millisecond, slices: 15,
		long: 10_000, last: 100, whole: 2_000, few: 1_000, sessions: 100_000, kept: 1_000, turns: 25,
	}
	if quick {
		s.saves, s.reads, s.heavy, s.slice, s.slices = 200, 60, 10, 60*time.Millisecond, 5
		s.long, s.whole, s.sessions = 2_000, 500, 10_000
	}
	return s
}

// allMeasurements lists all measurements in the order of the report, with own, the
// one for this kind of store only, after the concurrent sessions.
func allMeasurements(own measurement) []measurement {
	return []measurement{
		{"saves", saves}, {"growth, versions and forks", growth}, {"untouched state", untouchedState},
		{"concurrent sessions", concurrentSessions}, own,
		{"loads", loads}, {"listings", listings}, {"words", searches}, {"disk", disk}, {"commits", commitCounts}, {"writers", writers},
	}
}

func (e engine) measure(ctx context.Context, s scale, progress io.Writer) ([]Result, error) {
	var all []Result
	for _, c := range e.chapters {
		begin := time.Now()
		results, err := c.run(ctx, &bench{engine: e, scale: s, text: benchmark.NewTextSource()})
		if err != nil {
			return nil, fmt.Errorf("%s: %s: %w", e.name, c.name, err)
		}
		fmt.Fprintf(progress, "%s: %s (%s)\n", e.name, c.name, time.Since(begin).Round(100*time.Millisecond))
		all = append(all, results...)
	}
	return all, nil
}

// in runs a measurement in a new store.
func (b *bench) in(ctx context.Context, s setting, measure func(*openedStore) error) error {
	p, err := b.open(ctx, s)
	if err != nil {
		return err
	}
	return errors.Join(measure(p), p.remove())
}

// beside runs a measurement with a new floor.
func (b *bench) beside(ctx context.Context, clients int, measure func(floor) error) error {
	f, err := b.floor(ctx, clients)
	if err != nil {
		return err
	}
	return errors.Join(measure(f), f.close(ctx))
}
