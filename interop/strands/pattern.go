package strands

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/workflow"
	"github.com/holdfast-dev/holdfast/workflow/spec"
)

// patternState is a pattern_state.json, of whichever pattern.
type patternState struct {
	Question    *workflow.HITLState  `json:"hitl_state"`
	Pending     []workflow.HITLState `json:"hitl_pending"`
	TimedOut    bool                 `json:"hitl_timeout_occurred"`
	TimedOutAt  string               `json:"hitl_timeout_at"`
	DefaultUsed string               `json:"hitl_default_used"`

	Steps []stepResult          `json:"step_history"`
	Tasks map[string]stepResult `json:"task_results"`

	Route    string `json:"chosen_route"`
	Decision *struct {
		Route    string `json:"chosen_route"`
		Response string `json:"response"`
	} `json:"router_decision"`
	RouteState *branchResult `json:"route_state"`

	Branches     map[string]branchResult `json:"branch_results"`
	BranchStates map[string]branchResult `json:"branch_states"`
	Reduced      bool                    `json:"reduce_executed"`
	Final        *string                 `json:"final_response"`

	Draft     *string `json:"current_draft"`
	Iteration int     `json:"current_iteration"`
	History   []struct {
		Score  json.RawMessage `json:"score"`
		Issues json.RawMessage `json:"issues"`
		Fixes  json.RawMessage `json:"fixes"`
		Draft  string          `json:"draft"`
	} `json:"iteration_history"`

	Plan        json.RawMessage       `json:"orchestrator_subtasks"`
	Worked      bool                  `json:"workers_executed"`
	Workers     []stepResult          `json:"worker_results"`
	WorkerState map[string]stepResult `json:"worker_states"`
	Reduction   *string               `json:"reduce_response"`
	WrittenUp   bool                  `json:"writeup_executed"`
	Writeup     *string               `json:"writeup_response"`

	Nodes map[string]stepResult `json:"node_results"`
	Path  []string              `json:"execution_path"`
}

func (s State) pattern() (patternState, error) {
	var st patternState
	raw, err := session.JSON(s.Pattern)
	if err == nil {
		err = json.Unmarshal(raw, &st)
	}
	if err != nil {
		return st, &session.InvalidError{Field: "pattern_state", Reason: err.Error()}
	}
	return st, nil
}

// stepResult is the result of a step, task, worker or node.
type stepResult struct {
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

type branchResult struct {
	Response *string      `json:"response"`
	Steps    []stepResult `json:"step_history"`
}

// knownKeys are the keys of a pattern state that a run makes again from its log.
const knownKeys = " hitl_state hitl_pending hitl_timeout_occurred hitl_timeout_at hitl_default_used current_step step_history " +
	"task_results completed_tasks current_layer router_executed chosen_route router_decision route_state " +
	"completed_branches branch_results branch_states reduce_executed final_response " +
	"current_iteration current_draft iteration_history final_score accepted pending_revision " +
	"orchestrator_response orchestrator_subtasks workers_executed worker_states worker_results reduce_response writeup_executed writeup_response " +
	"current_node node_results iteration_counts total_steps "

// pathKeys are known too, but those of a graph of the other program are kept:
// what its nodes answered at earlier visits, on which both depend, is not
// recorded.
const pathKeys = " execution_path cumulative_tokens "

// unknownKeys returns what a run keeps of a pattern state as it is; nil for
// nothing.
func (s State) unknownKeys() (json.RawMessage, error) {
	var kept Object
	for key, value := range s.Pattern.All() {
		if key := " " + key + " "; !strings.Contains(knownKeys, key) && (!strings.Contains(pathKeys, key) || s.Holdfast == nil) {
			kept.Set(strings.TrimSpace(key), value)
		}
	}
	if kept.Len() == 0 {
		return nil, nil
	}
	return session.JSON(kept)
}

// record returns the unit that a result is of. One without a response is done,
// but what was said is not recorded.
func (s stepResult) record() workflow.UnitRecord {
	rec := workflow.UnitRecord{Done: true, Response: s.Response, Tokens: s.Tokens}
	if rec.Tokens == nil {
		rec.Tokens = s.Counted
	}
	return rec
}

// answered returns a finished unit of which nothing but the answer is recorded;
// nil: not even that.
func answered(response *string) workflow.UnitRecord {
	return workflow.UnitRecord{Done: true, Response: response}
}

// readPattern takes the units out of the pattern state.
func (h *history) readPattern() {
	switch c := h.spec.Pattern; {
	case c.Chain != nil:
		h.readSteps("", h.state.Steps)
		if len(c.Chain.Steps) == 1 && c.Chain.Steps[0].Ask == nil {
			h.readSingle("step/0")
		}
	case c.Workflow != nil:
		for id, task := range h.state.Tasks {
			h.records[workflow.UnitKey("task/", id, "")] = task.record()
		}
		if tasks := c.Workflow.Tasks; len(tasks) == 1 && tasks[0].Ask == nil {
			h.readSingle(workflow.UnitKey("task/", tasks[0].ID, ""))
		}
	case c.Routing != nil:
		h.readRoute(c.Routing)
	case c.Parallel != nil:
		h.readBranches(c.Parallel)
	case c.Evaluator != nil:
		h.readEvaluations()
	case c.Orchestrator != nil:
		h.readWorkers()
	case c.Graph != nil:
		h.readPath()
	}
}

// readSingle reads the only unit of a run, whose state is empty once it is
// completed.
func (h *history) readSingle(key string) {
	if _, known := h.records[key]; !known && h.completed {
		h.records[key] = answered(nil)
	}
}

func (h *history) readSteps(prefix string, steps []stepResult) {
	for _, s := range steps {
		key := fmt.Sprintf("%sstep/%d", prefix, s.Index)
		h.records[key], h.prompts[key] = s.record(), s.Prompt
	}
}

func routePrefix(route string) string { return workflow.UnitKey("route/", route, "/") }

func (h *history) readRoute(c *spec.Routing) {
	st := h.state
	router, choice := answered(nil), st.Route
	if st.Decision != nil {
		router.Response = &st.Decision.Response
		choice = cmp.Or(st.Decision.Route, choice)
	}
	if choice == "" { // a decision is enough: a run that waits for its review has nothing else
		h.readLostRoute(c)
		return
	}
	router.Value = encoded(choice)
	h.records["router"] = router
	if st.RouteState == nil {
		return
	}
	h.readSteps(routePrefix(st.Route), st.RouteState.Steps)
	if h.passed["router/review"] = "approved"; choice != st.Route {
		h.passed["router/review"] = "route:" + st.Route
	}
}

// readLostRoute reads the steps of a route whose name is lost, if only one
// route can have them. The router is asked again.
func (h *history) readLostRoute(c *spec.Routing) {
	if len(h.state.Steps) == 0 {
		return
	}
	h.note("which route was chosen is not recorded: the router is asked again")
	var fits []string
	for _, route := range c.Routes {
		if !slices.ContainsFunc(h.state.Steps, func(s stepResult) bool { return !s.fits(route.Value.Then) }) {
			fits = append(fits, route.Name)
		}
	}
	if len(fits) != 1 {
		h.note("the steps that are recorded fit %d routes and are left out", len(fits))
		return
	}
	h.lostRoute = fits[0]
	h.readSteps(routePrefix(h.lostRoute), h.state.Steps)
}

func (s stepResult) fits(steps []spec.Step) bool {
	if s.Index < 0 || s.Index >= len(steps) {
		return false
	}
	if step := steps[s.Index]; step.Ask == nil {
		return s.Agent == step.Agent
	}
	return s.Type == "hitl"
}

func (h *history) readBranches(c *spec.Parallel) {
	for _, b := range c.Branches {
		prefix := workflow.UnitKey("branch/", b.ID, "/")
		done, ok := h.state.Branches[b.ID]
		if !ok {
			h.readSteps(prefix, h.state.BranchStates[b.ID].Steps)
			continue
		}
		for i := range b.Steps { // where only the end is recorded
			h.records[fmt.Sprintf("%sstep/%d", prefix, i)] = answered(nil)
		}
		h.records[fmt.Sprintf("%sstep/%d", prefix, len(b.Steps)-1)] = answered(done.Response)
		h.readSteps(prefix, done.Steps)
	}
	if h.state.Reduced && h.state.Final != nil {
		h.records["reduce"] = answered(h.state.Final)
	}
}

// readEvaluations goes by the history, for the other program counts otherwise:
// evaluation n is the entry n-2, and a revision is still due when the last
// entry holds the current draft.
func (h *history) readEvaluations() {
	st := h.state
	if st.Draft == nil || *st.Draft == "" && !h.own {
		return
	}
	var drafts []*string
	for i, e := range st.History {
		drafts = append(drafts, &st.History[i].Draft)
		value := encoded(struct {
			Score  int      `json:"score"`
			Issues []string `json:"issues"`
			Fixes  []string `json:"fixes"`
		}{readScore(e.Score), readTexts(e.Issues), readTexts(e.Fixes)})
		text := string(value)
		h.records[fmt.Sprintf("eval/%d", i+2)] = workflow.UnitRecord{Done: true, Response: &text, Value: value}
	}
	due := len(drafts) > 0 && *drafts[len(drafts)-1] == *st.Draft
	if h.own { // a revision may say the same again
		due = st.Iteration < len(st.History)+2 && len(drafts) > 0
	}
	if !due {
		drafts = append(drafts, st.Draft)
	}
	for i, text := range drafts {
		key := "draft"
		if i > 0 {
			key = fmt.Sprintf("revise/%d", i+1)
			h.passed[fmt.Sprintf("gate/%d", i+1)] = ""
		}
		h.records[key] = answered(text)
	}
}

// readScore reads a whole number from 0 to 100, also as a text; 0 for anything
// else.
func readScore(raw json.RawMessage) int {
	var number float64
	if json.Unmarshal([]byte(strings.Trim(strings.TrimSpace(string(raw)), `"`)), &number) != nil ||
		number != float64(int(number)) || number < 0 || number > 100 {
		return 0
	}
	return int(number)
}

// readTexts reads a list of texts; it is empty for anything else.
func readTexts(raw json.RawMessage) []string {
	var list []*string
	if json.Unmarshal(raw, &list) != nil || slices.Contains(list, nil) {
		return []string{}
	}
	texts := make([]string, len(list))
	for i, text := range list {
		texts[i] = *text
	}
	return texts
}

func (h *history) readWorkers() {
	st := h.state
	plan := st.Plan
	if string(plan) == "null" {
		plan = nil
	}
	if plan == nil && st.Worked { // it goes when the workers are done
		tasks := make([]map[string]string, len(st.Workers))
		for i, w := range st.Workers {
			tasks[i] = map[string]string{"task": w.Task}
		}
		plan = encoded(tasks)
	}
	if plan == nil {
		return
	}
	text := string(plan)
	h.records["plan"] = workflow.UnitRecord{Done: true, Response: &text, Value: plan}
	for i, w := range st.Workers {
		h.records[fmt.Sprintf("worker/%d", i)] = w.record()
	}
	for i, w := range st.WorkerState {
		h.records["worker/"+i] = w.record()
	}
	if st.Worked || len(st.WorkerState) > 0 {
		h.passed["plan/review"] = ""
	}
	if st.Reduced && st.Reduction != nil {
		h.records["reduce"] = answered(st.Reduction)
	}
	if st.WrittenUp && st.Writeup != nil {
		h.records["writeup"] = answered(st.Writeup)
	}
	if st.Reduced || st.WrittenUp {
		h.passed["reduce/review"] = ""
	}
}

func visitKey(node string, visit int) string {
	return workflow.UnitKey("node/", node, fmt.Sprintf("@%d", visit))
}

// readPath reads what each node answered last; more is not recorded.
func (h *history) readPath() {
	visits := map[string]int{}
	for _, id := range h.state.Path {
		visits[id]++
		h.records[visitKey(id, visits[id])] = answered(nil)
	}
	for id, node := range h.state.Nodes {
		if visits[id] > 0 && node.Status == "success" {
			h.records[visitKey(id, visits[id])] = node.record()
		}
		if node.Status == "error" && node.Response != nil {
			h.records[visitKey(id, visits[id]+1)] = workflow.UnitRecord{Failure: strings.TrimPrefix(*node.Response, "ERROR: ")}
		}
	}
}
