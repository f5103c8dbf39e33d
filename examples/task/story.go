package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"sync"
	"time"

	holdfast "github.com/holdfast-dev/holdfast"
	"github.com/holdfast-dev/holdfast/session"
)

// story is the task as this process sees it, which does none of the work.
type story struct {
	*desk
	out   io.Writer
	dir   string
	model *model

	mu    sync.Mutex // guards what follows, and out
	seen  int64      // the last change that was printed
	edits int
}

// say prints a line about the processes, when all they have written so far is
// printed.
func (s *story) say(ctx context.Context, format string, args ...any) error {
	now, err := s.rt.Get(ctx, taskID, holdfast.WithTail())
	if err != nil {
		return err
	}
	for s.lastSeen() < now.Seq() {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(5 * time.Millisecond):
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	fmt.Fprintf(s.out, "\n"+format+"\n", args...)
	return nil
}

func (s *story) lastSeen() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.seen
}

// watch prints what happens as it is written, whoever writes it.
func (s *story) watch(ctx context.Context) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for e, err := range s.rt.Watch(ctx, taskID, 0) {
			if err != nil {
				return // the story is over
			}
			switch c := e.Change.(type) {
			case session.TaskEvent:
				s.see(c)
			case session.CallPending:
				s.print("? " + c.Call.Prompt)
			case session.CallResponded:
				s.print("granted by " + c.Response.By)
			}
			s.mu.Lock()
			s.seen = e.Seq
			s.mu.Unlock()
		}
	}()
	return func() {
		cancel()
		<-done
	}
}

// see prints an event.
func (s *story) see(e session.TaskEvent) {
	var said struct {
		Message string
		Tool    string
		Plan    session.Plan
		Step    session.PlanStep
	}
	if json.Unmarshal(e.Data, &said) != nil {
		return
	}
	line := ""
	switch e.Name {
	case "plan_created":
		line = "plan: " + steps(said.Plan)
	case "step_started":
		line = "▸ " + said.Step.Description
	case "step_completed":
		line = "✓ " + said.Step.Description
	case "tool_call":
		line = "  → " + said.Tool
	case "verification_failed":
		line = "✗ the check fails: " + check
	case "verification_passed":
		line = "✓ the check passes"
	case "task_interrupted":
		line = said.Message
	}
	s.print(line)
	s.mu.Lock()
	defer s.mu.Unlock()
	if e.Name == "tool_call" && said.Tool == "file_edit" {
		s.edits++
	}
}

// print prints the first line of a text, nothing for none.
func (s *story) print(text string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if text != "" {
		fmt.Fprintln(s.out, "   ", strings.SplitN(text, "\n", 2)[0])
	}
}

// edited is how often the file was edited.
func (s *story) edited() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.edits
}

func steps(p session.Plan) string {
	var list []string
	for _, s := range p.Steps {
		list = append(list, s.Description)
	}
	return strings.Join(list, ", then ")
}
