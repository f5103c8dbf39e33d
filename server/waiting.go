package server

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/holdfast-dev/holdfast/apikey"
	"github.com/holdfast-dev/holdfast/node"
	"github.com/holdfast-dev/holdfast/schedule"
	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/worker"
)

// mostWaiting bounds how many waiting sessions are counted: reading them costs
// the same however many there are.
const mostWaiting = 1000

func (s *Server) addWaiting() {
	if s.config.Work == nil {
		return
	}
	register(s, apikey.Metrics, huma.Operation{
		OperationID: "get-work", Method: http.MethodGet, Path: "/v1/system/work",
		Summary: "Read how much waits in the store, and how busy this node is", Tags: []string{"system"},
		Description: "Counts of all tenants, for autoscaling. No more than 1,000 waiting sessions are counted.",
	}, s.getWork)
}

// waiting is what waits in the store, by kind.
type waiting struct {
	Kind   session.Kind `json:"kind"`
	Count  int          `json:"count" doc:"At most 1,000 of all kinds are counted"`
	Oldest float64      `json:"oldestSeconds" doc:"How long the first of them has waited"`
}

type workOutput struct {
	Body struct {
		Waiting []waiting     `json:"waiting"`
		Loads   []worker.Load `json:"loads" doc:"How busy this node is; empty for one that only answers requests"`
	}
}

func (s *Server) getWork(ctx context.Context, _ caller, _ *nothing) (*workOutput, error) {
	out := &workOutput{}
	var err error
	out.Body.Waiting, err = s.countWaiting(ctx)
	if out.Body.Loads = []worker.Load{}; s.config.Loads != nil {
		out.Body.Loads = s.config.Loads()
	}
	return out, err
}

func (s *Server) countWaiting(ctx context.Context) ([]waiting, error) {
	found, err := s.config.Work.Waiting(ctx, "", mostWaiting)
	if err != nil {
		return nil, err
	}
	now := s.config.Now()
	list := []waiting{}
	for _, kind := range []session.Kind{session.KindChat, session.KindTask, session.KindWorkflow} {
		w := waiting{Kind: kind}
		for _, f := range found {
			if f.Kind == kind {
				w.Count++
				if f.Since.Unix() > 0 { // else it is not known
					w.Oldest = max(w.Oldest, now.Sub(f.Since).Seconds())
				}
			}
		}
		list = append(list, w)
	}
	return list, nil
}

// summariseWork returns a text that changes when nodes, their load, what waits
// or a schedule of the caller's tenant changes. Where the store fails it is what
// it was.
func (s *Server) summariseWork(ctx context.Context, c caller, before string) string {
	ctx, cancel := context.WithTimeout(ctx, workWait)
	defer cancel()
	var all struct {
		Loads     []worker.Load
		Waiting   []waiting
		Nodes     []node.Node
		Schedules []schedule.Schedule
	}
	var errs [3]error
	if s.config.Loads != nil {
		all.Loads = s.config.Loads()
	}
	if s.config.Work != nil {
		all.Waiting, errs[0] = s.countWaiting(ctx)
		for i := range all.Waiting {
			all.Waiting[i].Oldest = 0 // it grows by itself
		}
	}
	if s.config.Nodes != nil {
		all.Nodes, errs[1] = s.config.Nodes.List(ctx)
	}
	if s.config.Schedules != nil {
		all.Schedules, errs[2] = s.config.Schedules.List(ctx, c.Tenant)
	}
	text, err := json.Marshal(all)
	if errors.Join(append(errs[:], err)...) != nil {
		return before
	}
	return string(text)
}

// workWait bounds how long the store may take to say what waits.
const workWait = 5 * time.Second

// writeWork writes the same numbers for Prometheus.
func (s *Server) writeWork(ctx context.Context, w io.Writer) {
	if s.config.Loads != nil {
		for _, l := range s.config.Loads() {
			fmt.Fprintf(w, "holdfast_slots{kind=%q,state=\"busy\"} %d\nholdfast_slots{kind=%q,state=\"free\"} %d\n", l.Kind, l.Running, l.Kind, l.Slots-l.Running)
		}
	}
	if s.config.Work == nil {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, workWait)
	defer cancel()
	list, err := s.countWaiting(ctx)
	if err != nil {
		s.log.WarnContext(ctx, "what waits could not be counted", "error", err)
		return
	}
	for _, l := range list {
		fmt.Fprintf(w, "holdfast_work_waiting{kind=%q} %d\nholdfast_work_oldest_seconds{kind=%q} %.3f\n", l.Kind, l.Count, l.Kind, l.Oldest)
	}
}
