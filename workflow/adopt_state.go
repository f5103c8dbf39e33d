package workflow

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/workflow/spec"
)

// foreignState is a pattern_state, of whichever pattern.
type foreignState struct {
	Question    *HITLState  `json:"hitl_state"`
	Pending     []HITLState `json:"hitl_pending"`
	TimedOut    bool        `json:"hitl_timeout_occurred"`
	TimedOutAt  string      `json:"hitl_timeout_at"`
	DefaultUsed string      `json:"hitl_default_used"`

	Steps []foreignStep          `json:"step_history"`
	Tasks map[string]foreignStep `json:"task_results"`

	Routed   bool   `json:"router_executed"`
	Route    string `json:"chosen_route"`
	Decision *struct {
		Route    string `json:"chosen_route"`
		Response string `json:"response"`
	} `json:"router_decision"`
	RouteState *foreignBranch `json:"route_state"`

	Branches     map[string]foreignBranch `json:"branch_results"`
	BranchStates map[string]foreignBranch `json:"branch_states"`
	Reduced      bool                     `json:"reduce_executed"`
	Final        *string                  `json:"final_response"`

	Draft     *string             `json:"current_draft"`
	Iteration int                 `json:"current_iteration"`
	History   []foreignEvaluation `json:"iteration_history"`

	Plan        json.RawMessage        `json:"orchestrator_subtasks"`
	Worked      bool                   `json:"workers_executed"`
	Workers     []foreignStep          `json:"worker_results"`
	WorkerState map[string]foreignStep `json:"worker_states"`
	Reduction   *string                `json:"reduce_response"`
	WrittenUp   bool                   `json:"writeup_executed"`
	Writeup     *string                `json:"writeup_response"`

	Node  string                 `json:"current_node"`
	Nodes map[string]foreignStep `json:"node_results"`
	Path  []string               `json:"execution_path"`
}

// foreignStep is the result of a step, task, worker or node.
type foreignStep struct {
	Index    int     `json:"index"`
	Agent    string  `json:"agent"`
	Type     string  `json:"type"`
	Prompt   string  `json:"prompt"`
	Response *string `json:"response"`
	Status   string  `json:"status"`
	Task     string  `json:"task"`
	Tokens   *int    `json:"tokens_estimated"`
	Counted  *int    `json:"tokens"`
}

type foreignBranch struct {
	Response *string       `json:"response"`
	Steps    []foreignStep `json:"step_history"`
}

type foreignEvaluation struct {
	Score  json.RawMessage `json:"score"`
	Issues json.RawMessage `json:"issues"`
	Fixes  json.RawMessage `json:"fixes"`
	Draft  string          `json:"draft"`
}

// foreignKeys are the keys of a pattern_state that have a meaning here.
func foreignKeys(pattern spec.PatternType) []string {
	shared := []string{"hitl_state", "hitl_pending", "hitl_timeout_occurred", "hitl_timeout_at", "hitl_default_used"}
	steps := []string{"current_step", "step_history"}
	switch pattern {
	case spec.ChainPattern:
		return append(shared, steps...)
	case spec.WorkflowPattern:
		return append(shared, "task_results", "completed_tasks", "current_layer")
	case spec.RoutingPattern:
		return append(append(shared, steps...), "router_executed", "chosen_route", "router_decision", "route_state")
	case spec.ParallelPattern:
		return append(shared, "current_step", "completed_branches", "branch_results", "branch_states", "reduce_executed", "final_response")
	case spec.EvaluatorPattern:
		return append(shared, "current_iteration", "current_draft", "iteration_history", "final_score", "accepted", "pending_revision")
	case spec.OrchestratorPattern:
		return append(shared, "orchestrator_response", "orchestrator_subtasks", "workers_executed", "worker_states", "worker_results",
			"reduce_executed", "reduce_response", "writeup_executed", "writeup_response")
	case spec.GraphPattern:
		return append(shared, "current_node", "node_results", "iteration_counts", "total_steps", "execution_path", "cumulative_tokens")
	}
	return shared
}

// foreignExtra is what of a foreign state nobody here knows, nil for nothing.
// A graph that went in circles brings its way along: what its nodes answered
// at earlier visits, on which the way depends, is not recorded.
func foreignExtra(pattern spec.PatternType, f Foreign) (json.RawMessage, error) {
	var all map[string]json.RawMessage
	if len(f.Pattern) > 0 {
		if err := json.Unmarshal(f.Pattern, &all); err != nil {
			return nil, &session.InvalidError{Field: "pattern_state", Reason: err.Error()}
		}
	}
	for _, key := range foreignKeys(pattern) {
		if key != pathKey || f.Own {
			delete(all, key)
		}
	}
	if len(all) == 0 {
		return nil, nil
	}
	return session.JSON(all)
}

// pathKey is where a graph's state says which way it went.
const pathKey = "execution_path"

// way is the way that a foreign graph went.
func (b *book) way() []string {
	var extra struct {
		Path []string `json:"execution_path"`
	}
	if b.begun.Extra == nil || json.Unmarshal(b.begun.Extra, &extra) != nil {
		return nil
	}
	return extra.Path
}

// record is what the files say of a unit or an answer.
type record struct {
	response string
	tokens   int             // -1: to be counted
	value    json.RawMessage // what was read out of the answer
	lost     bool            // it is done; what was said is not recorded
	prompt   string          // of a question
	failed   string          // why it came to nothing
}

func (s foreignStep) record() record {
	rec := record{tokens: -1, prompt: s.Prompt, lost: s.Response == nil}
	if s.Response != nil {
		rec.response = *s.Response
	}
	switch {
	case s.Tokens != nil:
		rec.tokens = *s.Tokens
	case s.Counted != nil:
		rec.tokens = *s.Counted
	}
	return rec
}

// recordOf is what the files say of a unit, and whether it is done. What was
// asked several times is recorded once: an answer that bears a unit's name and
// cannot be read was that of an attempt before.
func (p *past) recordOf(u unit) (record, bool) {
	base, number, attempt := strings.Cut(u.key, "#")
	if !attempt {
		rec, ok := p.records[u.key]
		return rec, ok && rec.failed == ""
	}
	decided, ok := p.records[base]
	text, answered := answer(p.threadOf(u).named[u.key])
	if !answered {
		return decided, ok
	}
	k, err := strconv.Atoi(number)
	if err != nil {
		return decided, ok
	}
	again := len(p.threadOf(u).named[fmt.Sprintf("%s#%d", base, k+1)]) > 0
	if value, err := u.read(text); err == nil {
		decided.response = text
		if decided.value == nil {
			decided.value = value
		}
		return decided, ok
	}
	return record{response: text, tokens: -1}, ok || again
}

// read takes the records out of the state.
func (p *past) read(r *run) {
	switch c := r.spec.Pattern; {
	case c.Chain != nil:
		p.readSteps("", p.state.Steps)
	case c.Workflow != nil:
		for id, task := range p.state.Tasks {
			p.records["task/"+id] = task.record()
		}
	case c.Routing != nil:
		p.readRoute(c.Routing)
	case c.Parallel != nil:
		p.readBranches(c.Parallel)
	case c.Evaluator != nil:
		p.readEvaluations()
	case c.Orchestrator != nil:
		p.readWorkers()
	case c.Graph != nil:
		p.readPath()
	}
	if p.f.Status == StatusCompleted && r.single() { // its state is empty then
		for _, key := range []string{"step/0", "task/" + firstTask(r.spec)} {
			if _, known := p.records[key]; !known {
				p.records[key] = record{tokens: -1, lost: true}
			}
		}
	}
}

func firstTask(s *spec.Spec) string {
	if c := s.Pattern.Workflow; c != nil && len(c.Tasks) > 0 {
		return c.Tasks[0].ID
	}
	return ""
}

func (p *past) readSteps(prefix string, steps []foreignStep) {
	for _, s := range steps {
		p.records[fmt.Sprintf("%sstep/%d", prefix, s.Index)] = s.record()
	}
}

func (p *past) readRoute(c *spec.Routing) {
	st := p.state
	if !st.Routed {
		p.readLostRoute(c)
		return
	}
	decided := record{tokens: -1, lost: st.Decision == nil}
	choice := st.Route
	if st.Decision != nil {
		decided.response = st.Decision.Response
		if st.Decision.Route != "" {
			choice = st.Decision.Route
		}
	}
	decided.value = quoted(choice)
	p.records["router"] = decided
	if st.RouteState == nil {
		return
	}
	p.readSteps("route/"+st.Route+"/", st.RouteState.Steps)
	if p.passed["router/review"] = "approved"; choice != st.Route {
		p.passed["router/review"] = "route:" + st.Route
	}
}

// readLostRoute takes the steps of a route whose name is lost, if there is
// only one that they can be of. The router is asked again.
func (p *past) readLostRoute(c *spec.Routing) {
	if len(p.state.Steps) == 0 {
		return
	}
	p.note("which route was chosen is not recorded: the router is asked again")
	var fits []string
	for _, route := range c.Routes {
		if slices.ContainsFunc(p.state.Steps, func(s foreignStep) bool { return !couldBe(s, route.Value.Then) }) {
			continue
		}
		fits = append(fits, route.Name)
	}
	if len(fits) != 1 {
		p.note("the steps that are recorded fit %d routes and are left out", len(fits))
		return
	}
	p.lost = fits[0]
	p.readSteps("route/"+p.lost+"/", p.state.Steps)
}

// takeLostRoute adopts the steps of such a route: the program does not come to
// them before the router has chosen again.
func (p *past) takeLostRoute(r *run) {
	if p.lost == "" {
		return
	}
	route, _ := r.spec.Pattern.Routing.Routes.Get(p.lost)
	for i, s := range route.Then {
		key := fmt.Sprintf("route/%s/step/%d", p.lost, i)
		rec, ok := p.records[key]
		switch {
		case !ok:
			return
		case s.Ask == nil:
			p.work(r, unit{key: key, agent: s.Agent, lane: laneMain})
		default:
			p.add(r, session.QuestionPut{Question: session.Question{Unit: key, Prompt: rec.prompt, Default: s.Ask.Default}, Seconds: p.seconds},
				session.QuestionAnswered{Unit: key, Response: rec.response})
		}
	}
}

func couldBe(s foreignStep, steps []spec.Step) bool {
	if s.Index < 0 || s.Index >= len(steps) {
		return false
	}
	if step := steps[s.Index]; step.Ask == nil {
		return s.Agent == step.Agent
	}
	return s.Type == "hitl"
}

func (p *past) readBranches(c *spec.Parallel) {
	st := p.state
	for _, b := range c.Branches {
		prefix := "branch/" + b.ID + "/"
		done, ok := st.Branches[b.ID]
		if !ok {
			p.readSteps(prefix, st.BranchStates[b.ID].Steps)
			continue
		}
		for i := range b.Steps { // where only the end is recorded
			p.records[fmt.Sprintf("%sstep/%d", prefix, i)] = record{tokens: -1, lost: true}
		}
		p.records[fmt.Sprintf("%sstep/%d", prefix, len(b.Steps)-1)] = foreignStep{Response: done.Response}.record()
		p.readSteps(prefix, done.Steps)
	}
	if st.Reduced && st.Final != nil {
		p.records["reduce"] = foreignStep{Response: st.Final}.record()
	}
}

// readEvaluations goes by the history, for other programs count otherwise:
// evaluation n is the entry n-2, and a revision is still due when the last
// entry holds the current draft.
func (p *past) readEvaluations() {
	st := p.state
	if st.Draft == nil || *st.Draft == "" && !p.f.Own {
		return
	}
	drafts := make([]string, 0, len(st.History)+1)
	for i, e := range st.History {
		drafts = append(drafts, e.Draft)
		p.records[fmt.Sprintf("eval/%d", i+2)] = e.record()
	}
	due := len(drafts) > 0 && drafts[len(drafts)-1] == *st.Draft
	if p.f.Own { // a revision may say the same again
		due = st.Iteration < len(st.History)+2 && len(drafts) > 0
	}
	if !due {
		drafts = append(drafts, *st.Draft)
	}
	for i, text := range drafts {
		key := "draft"
		if i > 0 {
			key = fmt.Sprintf("revise/%d", i+1)
			p.passed[fmt.Sprintf("gate/%d", i+1)] = ""
		}
		p.records[key] = record{response: text, tokens: -1}
	}
}

func (e foreignEvaluation) record() record {
	judged := evaluation{Issues: []string{}, Fixes: []string{}}
	var err error
	if judged.Score, err = score(e.Score); err != nil {
		judged.Score = 0
	}
	if list, err := texts(e.Issues); err == nil {
		judged.Issues = list
	}
	if list, err := texts(e.Fixes); err == nil {
		judged.Fixes = list
	}
	raw, err := json.Marshal(judged)
	if err != nil {
		panic(fmt.Sprintf("workflow: an evaluation is no JSON: %v", err)) // texts and a number always are
	}
	return record{response: string(raw), tokens: -1, value: raw}
}

func (p *past) readWorkers() {
	st := p.state
	plan := st.Plan
	if string(plan) == "null" {
		plan = nil
	}
	if plan == nil && st.Worked { // it goes when the workers are done
		tasks := make([]map[string]string, len(st.Workers))
		for i, w := range st.Workers {
			tasks[i] = map[string]string{"task": w.Task}
		}
		raw, err := json.Marshal(tasks)
		if err != nil {
			panic(fmt.Sprintf("workflow: a plan is no JSON: %v", err)) // texts always are
		}
		plan = raw
	}
	if plan == nil {
		return
	}
	p.records["plan"] = record{response: string(plan), tokens: -1, value: plan}
	for i, w := range st.Workers {
		p.records[fmt.Sprintf("worker/%d", i)] = w.record()
	}
	for i, w := range st.WorkerState {
		p.records["worker/"+i] = w.record()
	}
	if st.Worked || len(st.WorkerState) > 0 {
		p.passed["plan/review"] = ""
	}
	if st.Reduced && st.Reduction != nil {
		p.records["reduce"] = foreignStep{Response: st.Reduction}.record()
	}
	if st.WrittenUp && st.Writeup != nil {
		p.records["writeup"] = foreignStep{Response: st.Writeup}.record()
	}
	if st.Reduced || st.WrittenUp {
		p.passed["reduce/review"] = ""
	}
}

// readPath knows of each node what it answered last.
func (p *past) readPath() {
	visits := map[string]int{}
	for _, id := range p.state.Path {
		visits[id]++
		p.records[fmt.Sprintf("node/%s@%d", id, visits[id])] = record{tokens: -1, lost: true}
	}
	for id, node := range p.state.Nodes {
		key := fmt.Sprintf("node/%s@%d", id, visits[id])
		if visits[id] > 0 && node.Status == "success" {
			p.records[key] = node.record()
		}
		if node.Status == "error" && node.Response != nil {
			p.records[fmt.Sprintf("node/%s@%d", id, visits[id]+1)] = record{failed: strings.TrimPrefix(*node.Response, "ERROR: ")}
		}
	}
}

func quoted(text string) json.RawMessage {
	raw, err := session.JSON(text)
	if err != nil {
		panic(fmt.Sprintf("workflow: a text is no JSON: %v", err)) // it always is
	}
	return raw
}
