package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"github.com/holdfast-dev/holdfast/internal/benchmark"
)

// Report holds everything that one run measured.
type Report struct {
	Quick      bool              `json:"quick"`
	Machine    benchmark.Machine `json:"machine"`
	Contenders []Contender       `json:"contenders"`
	Rows       []Row             `json:"rows"`
}

// Row holds what one thing took on one store.
type Row struct {
	Store string `json:"store"`
	Key   string `json:"key"`
	Name  string `json:"name"`
	// Samples are those of each contender, in their order; none where it cannot do it.
	Samples [][]Sample `json:"samples"`
}

// Sample is what one operation took in one round, in nanoseconds: on the clock, and
// of the processor in this process. A server's is not counted.
type Sample struct {
	Took time.Duration `json:"took"`
	CPU  time.Duration `json:"cpu"`
}

// measureStore measures all contenders on one store. at returns where a contender
// keeps its sessions.
func measureStore(ctx context.Context, store string, all []Contender, s scale, at func(context.Context, int) (place, error), progress io.Writer) (_ []Row, err error) {
	subjects := make([]*subject, len(all))
	defer func() {
		for _, x := range subjects {
			if x != nil {
				err = errors.Join(err, x.close())
			}
		}
	}()
	for i, c := range all {
		p, err := at(ctx, i)
		if err != nil {
			return nil, err
		}
		p.store, p.answer = store, benchmark.NewTextSource().Text(benchmark.MessageBytes)
		opened, err := c.open(ctx, p)
		switch {
		case errors.Is(err, errors.ErrUnsupported):
		case err != nil:
			return nil, fmt.Errorf("open %s on %s: %w", c.Name, store, err)
		default:
			subjects[i] = &subject{system: opened, scale: s, text: benchmark.NewTextSource()}
		}
	}
	var found []Row
	for _, r := range rows(s) {
		begin := time.Now()
		samples, err := r.measure(ctx, all, subjects, s)
		if err != nil {
			return nil, fmt.Errorf("%s: %s: %w", store, r.name, err)
		}
		fmt.Fprintf(progress, "%s: %s (%s)\n", store, r.name, time.Since(begin).Round(100*time.Millisecond))
		found = append(found, Row{Store: store, Key: r.key, Name: r.name, Samples: samples})
	}
	return found, nil
}

// measure lets the subjects take turns, in a random order in each round, so that
// what disturbs the machine disturbs all of them. The first round does not count.
func (r row) measure(ctx context.Context, all []Contender, subjects []*subject, s scale) ([][]Sample, error) {
	operations := make([]operation, len(subjects))
	for i, x := range subjects {
		if x == nil {
			continue
		}
		var err error
		if operations[i], err = r.prepare(ctx, x); err != nil {
			return nil, fmt.Errorf("prepare %s: %w", all[i].Name, err)
		}
	}
	rounds := s.rounds
	if r.heavy {
		rounds = s.heavy
	}
	samples := make([][]Sample, len(subjects))
	dice := rand.New(rand.NewPCG(5, 6))
	runtime.GC() // what was built up for the measurement is not part of it
	for round := range rounds + 1 {
		for _, turn := range dice.Perm(len(subjects)) {
			if operations[turn] == nil {
				continue
			}
			sample, err := r.time(ctx, operations[turn])
			switch {
			case errors.Is(err, errors.ErrUnsupported):
				operations[turn] = nil
			case err != nil:
				return nil, fmt.Errorf("%s: %w", all[turn].Name, err)
			case round > 0:
				samples[turn] = append(samples[turn], sample)
			}
		}
	}
	return samples, nil
}

// time does a batch of operations.
func (r row) time(ctx context.Context, do operation) (Sample, error) {
	used, err := benchmark.ProcessorTime()
	if err != nil {
		return Sample{}, err
	}
	begin := time.Now()
	for range r.batch {
		if err := do(ctx); err != nil {
			return Sample{}, err
		}
	}
	took := time.Since(begin)
	after, err := benchmark.ProcessorTime()
	n := time.Duration(r.batch * max(r.each, 1))
	return Sample{Took: took / n, CPU: (after - used) / n}, err
}

// measureAll measures on the chosen stores, in folders and schemas that are removed.
func measureAll(ctx context.Context, f flags, progress io.Writer) (_ Report, err error) {
	dir, err := os.MkdirTemp(f.Dir, "bench")
	if err != nil {
		return Report{}, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	report := Report{Quick: f.Quick, Contenders: contenders()}
	if report.Machine, err = benchmark.ThisMachine(dir); err != nil {
		return Report{}, err
	}
	for _, store := range f.Stores {
		at := func(_ context.Context, i int) (place, error) {
			return place{file: filepath.Join(dir, fmt.Sprintf("%s-%d.db", strings.ToLower(store), i))}, nil
		}
		stop := func() {}
		if store == storePostgres {
			if at, stop, err = postgresPlaces(f.Dir); err != nil {
				return Report{}, err
			}
		}
		found, err := measureStore(ctx, store, report.Contenders, scaleOf(f.Quick), at, progress)
		stop()
		if err != nil {
			return Report{}, err
		}
		report.Rows = append(report.Rows, found...)
	}
	return report, nil
}
