package workflow

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	holdfast "github.com/holdfast-dev/holdfast"
	"github.com/holdfast-dev/holdfast/agent"
	"github.com/holdfast-dev/holdfast/session"
)

// settleQuestions takes the answer that came with the attempt and those in the
// inbox. Without an answer of its own it also uses the defaults of questions
// whose time is over. An answer that cannot be taken changes nothing.
func (a *attempt) settleQuestions(ctx context.Context) error {
	if a.answer != nil {
		q, err := a.questionFor(ctx)
		if err != nil {
			return err
		}
		return a.respond(ctx, q, *a.answer)
	}
	if err := a.takeResponses(ctx); err != nil {
		return err
	}
	for _, q := range a.openQuestions(ctx, nil) {
		if err := a.expire(ctx, q.Unit); err != nil {
			return err
		}
	}
	return nil
}

// questionFor returns the question that the attempt's answer is for.
func (a *attempt) questionFor(ctx context.Context) (HITLState, error) {
	open := a.openQuestions(ctx, nil)
	if len(open) == 0 {
		return HITLState{}, &session.InvalidError{Field: "answer", Reason: fmt.Sprintf("run %q waits for none; resume it without an answer", a.run.id)}
	}
	if a.target == "" {
		return open[0], nil
	}
	i := slices.IndexFunc(open, func(q HITLState) bool { return q.BranchID != nil && *q.BranchID == a.target || q.PendingID == a.target })
	if i < 0 {
		return HITLState{}, &session.InvalidError{Field: "target", Reason: fmt.Sprintf("branch %q waits for no answer", a.target)}
	}
	return open[i], nil
}

// openQuestions replays the program, which checks a trial on the way, and lists
// the questions without an answer.
func (a *attempt) openQuestions(ctx context.Context, t *trial) []HITLState {
	r := a.run.replayer()
	r.trial = t
	_, _, _ = r.replay(ctx) // how far it comes does not matter here
	return r.openQuestions(a.runner.hold.Session())
}

// respond checks an answer and takes it by way of the inbox, so that it counts
// only if nobody has answered before.
func (a *attempt) respond(ctx context.Context, q HITLState, text string) error {
	if err := a.check(ctx, q.Unit, text, false); err != nil {
		return err
	}
	response := session.Response{PendingID: q.PendingID, Action: session.RespondAnswer, Text: text}
	err := a.rt.Respond(ctx, a.run.id, response)
	switch {
	case errors.Is(err, session.ErrUnsupported) && a.run.index.questions[q.Unit] != nil: // without an inbox nobody else can answer
		a.emitStart()
		return a.runner.answer(ctx, a.run, q.Unit, response)
	case err != nil:
		return err
	}
	return a.takeResponses(ctx)
}

// check returns why the question of the spec at a unit does not take an answer.
func (a *attempt) check(ctx context.Context, unit, text string, expired bool) error {
	t := &trial{unit: unit, text: text, expired: expired}
	a.openQuestions(ctx, t)
	return t.refused
}

// takeResponses takes what the inbox holds for questions of the spec. Responses
// to calls within units are left to the units.
func (a *attempt) takeResponses(ctx context.Context) error {
	items, err := a.runner.hold.Responses(ctx)
	if err != nil {
		return err
	}
	for _, item := range items {
		taken := session.InboxTaken{ItemID: item.ID, ItemKind: item.Kind}
		var p session.PendingCall
		if !item.Unusable {
			p, _ = a.runner.hold.Session().PendingCall(item.Response.PendingID)
		}
		switch {
		case p.ID == "" || !p.Waiting(): // it came too late
			err = a.commitSame(ctx, "a late response", "workflow.answer", taken)
		case p.BySpec():
			err = a.take(ctx, p, *item.Response, taken)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// take commits an answer from the inbox. One that the spec refuses leaves the
// question open under a new id, because an inbox takes one response for an id,
// and says why.
func (a *attempt) take(ctx context.Context, p session.PendingCall, response session.Response, taken session.InboxTaken) error {
	refused := p.Check(response)
	if refused == nil {
		refused = a.check(ctx, p.Unit, response.Text, false)
	}
	if refused == nil {
		a.emitStart()
		return a.runner.answer(ctx, a.run, p.Unit, response, taken)
	}
	a.host.Warn("the answer to %s was refused, and the question still waits: %v", p.Unit, refused)
	details, err := json.Marshal(struct {
		Refused string `json:"refused"`
	}{refused.Error()})
	if err != nil {
		return err
	}
	p.ID, p.Details = nextID(p), details
	return a.commitSame(ctx, p.Unit, "workflow.ask", taken, session.CallPending{Call: p, Seconds: a.runner.seconds()})
}

// nextID returns the id of a question that is asked again.
func nextID(p session.PendingCall) string {
	first, n := session.QuestionID(p.Unit), 1
	if rest, again := strings.CutPrefix(p.ID, first+"~"); again {
		_, _ = fmt.Sscan(rest, &n) // what is no number counts as the first time
	}
	return fmt.Sprintf("%s~%d", first, n+1)
}

// expire answers a question of the spec whose time is over.
func (a *attempt) expire(ctx context.Context, unit string) error {
	q := a.run.index.questions[unit]
	if q == nil || !q.Expired(a.host.Now()) {
		return nil
	}
	text := "timeout_expired"
	if q.Default != nil {
		text = *q.Default
	}
	if refused := a.check(ctx, unit, text, true); refused != nil { // nobody has decided, and this decides nothing
		a.host.Warn("the time of %s is over, and it still waits: %v", unit, refused)
		return nil
	}
	a.emitStart()
	return a.runner.answer(ctx, a.run, unit, session.Response{PendingID: q.ID, Action: session.RespondExpire, Text: text})
}

// wait leaves the run paused, unless a response has arrived meanwhile or a
// person who is there answers.
func (a *attempt) wait(ctx context.Context) (again bool, err error) {
	row := a.runner.hold.Session().Info().Workflow
	if row.Status != string(StatusPaused) || row.Error != "" {
		if err := a.runner.commit(ctx, a.run, "the question", "workflow.ask", StatusPaused, ""); err != nil {
			return false, err
		}
	}
	if arrived, err := a.responsesArrived(ctx); err != nil || arrived {
		return arrived, err
	}
	if a.ask == nil {
		return false, nil
	}
	open := a.openQuestions(ctx, nil)
	if len(open) == 0 { // what waits is no question
		return false, nil
	}
	text, err := a.askPerson(ctx, open[0])
	if cause := a.runner.stopCause(ctx); cause != nil {
		return false, a.recordStop(ctx, cause)
	}
	if err != nil {
		a.host.Warn("the question waits: %v", err)
		return false, nil
	}
	err = a.respond(ctx, open[0], text)
	if errors.Is(err, session.ErrInvalid) { // the person is told, and asked again
		a.host.Warn("%v", err)
		return true, nil
	}
	return err == nil, err
}

// responsesArrived takes responses that arrived while units worked, and reports
// whether the program can use one.
func (a *attempt) responsesArrived(ctx context.Context) (bool, error) {
	before := a.runner.hold.Session().Version()
	if err := a.takeResponses(ctx); err != nil {
		return false, err
	}
	arrived := a.runner.hold.Session().Version() != before
	items, err := a.runner.hold.Responses(ctx)
	for _, item := range items { // for calls within units; once each, in case no unit takes it
		arrived = arrived || !a.seen[item.ID]
		a.seen[item.ID] = true
	}
	return arrived, err
}

// askPerson asks the person who is there. The run does not work until the
// answer is there, so that the time does not count.
func (a *attempt) askPerson(ctx context.Context, q HITLState) (string, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(a.runner.soft, cancel)() //nolint:contextcheck // the stop of the whole run
	since := a.host.Now()
	defer func() { a.runner.began = a.runner.began.Add(a.host.Now().Sub(since)) }()
	return a.ask(ctx, q)
}

// waits reports a unit whose calls wait and that nothing lets continue.
func (x *runner) waits(ctx context.Context, u unit) (bool, error) {
	waiting, now := 0, x.host.Now()
	for _, p := range x.hold.Session().PendingCalls() {
		if p.Unit != u.key || !p.Waiting() {
			continue
		}
		if p.Expired(now) {
			return false, nil
		}
		waiting++
	}
	if waiting == 0 {
		return false, nil
	}
	items, err := unitInbox{x.hold, u.key}.Waiting(ctx)
	return len(items) == 0, err
}

// unitInbox has the responses to the calls of one unit.
type unitInbox struct {
	hold *holdfast.Hold
	unit string
}

// Waiting lists them.
func (in unitInbox) Waiting(ctx context.Context) ([]agent.Incoming, error) {
	items, err := in.hold.Responses(ctx)
	return slices.DeleteFunc(items, func(i agent.Incoming) bool {
		if i.Unusable {
			return true
		}
		p, known := in.hold.Session().PendingCall(i.Response.PendingID)
		return !known || p.Unit != in.unit || p.BySpec()
	}), err
}

// runGate decides about the calls of all units by what the run was allowed.
type runGate struct {
	agent.Gate
	hold *holdfast.Hold
}

// Admit decides about a call of a unit.
func (g runGate) Admit(ctx context.Context, _ session.Session, call agent.Call) (agent.Admission, error) {
	return g.Gate.Admit(ctx, g.hold.Session(), call)
}

// Responded returns what a response changes besides the call.
func (g runGate) Responded(ctx context.Context, _ session.Session, p session.PendingCall, r session.Response) ([]session.Change, error) {
	return g.Gate.Responded(ctx, g.hold.Session(), p, r)
}
