package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/holdfast-dev/holdfast/store"
)

// engine is a kind of durable store.
type engine struct {
	name string

	// open makes an empty store.
	open func(context.Context, setting) (*place, error)
	// floor makes the least that appends durably without the store, for so
	// many clients at once.
	floor func(ctx context.Context, clients int) (floor, error)
	// commits reports whether a point of the write hook is one commit.
	commits func(point string) bool
	// crowd is the target for the rate of 64 sessions against that of one.
	crowd *Target

	chapters []chapter
}

// setting is what a store is opened with.
type setting struct {
	onWrite func(point string)
	clients int // who will use it at once
}

// durable are the abilities that are measured.
type durable interface {
	store.Store
	store.Logs
	store.Forks
	store.Wakes
}

// place is a store and the room it has on a disk.
type place struct {
	durable
	file string // the database, where it is one file

	// bytes is how much room it takes. It may close the store.
	bytes func(context.Context) (int64, error)
	// remove closes the store and gives the room back.
	remove func() error
}

// floor appends to logs of its own with as little as possible.
type floor interface {
	append(ctx context.Context, client int, body []byte) error
	close(ctx context.Context) error
}

// bench is one engine at one scale.
type bench struct {
	engine
	scale
	text *prose
}

// chapter measures one side of a store.
type chapter struct {
	name string
	run  func(context.Context, *bench) ([]Result, error)
}

// scale is how much is done.
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

// allChapters are what is measured on a store, in the order of the report,
// with what only this kind of store has to show beside its concurrent sessions.
func allChapters(own chapter) []chapter {
	return []chapter{
		{"saves", saves}, {"growth, versions and forks", growth}, {"untouched state", untouchedState},
		{"concurrent sessions", crowds}, own,
		{"loads", loads}, {"listings", listings}, {"words", words}, {"disk", disk}, {"commits", commitCounts}, {"writers", writers},
	}
}

func (e engine) measure(ctx context.Context, s scale, progress io.Writer) ([]Result, error) {
	var all []Result
	for _, c := range e.chapters {
		begin := time.Now()
		results, err := c.run(ctx, &bench{engine: e, scale: s, text: newProse()})
		if err != nil {
			return nil, fmt.Errorf("%s: %s: %w", e.name, c.name, err)
		}
		fmt.Fprintf(progress, "%s: %s (%s)\n", e.name, c.name, time.Since(begin).Round(100*time.Millisecond))
		all = append(all, results...)
	}
	return all, nil
}

// in runs a measurement in a store of its own.
func (b *bench) in(ctx context.Context, s setting, measure func(*place) error) error {
	p, err := b.open(ctx, s)
	if err != nil {
		return err
	}
	return errors.Join(measure(p), p.remove())
}

// beside runs a measurement beside the floor.
func (b *bench) beside(ctx context.Context, clients int, measure func(floor) error) error {
	f, err := b.floor(ctx, clients)
	if err != nil {
		return err
	}
	return errors.Join(measure(f), f.close(ctx))
}
