package instructor

import (
	"cmp"
	"encoding/json"
	"maps"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/holdfast-dev/holdfast/interop/foreign"
	"github.com/holdfast-dev/holdfast/session"
)

func (im *importer) definition(p, agentName value) session.Definition {
	p.checkKeys("name", "label", "description", "systemPrompt", "llmConfig", "tools", "toolsDeny", "skills", "budget", "capabilities", "metadata")
	d := session.Definition{
		Name: p.at("name").optional(), Label: p.at("label").optional(), Description: p.at("description").optional(),
		SystemPrompt: p.at("systemPrompt").optional(), Tools: p.at("tools").names(), ToolsDeny: p.at("toolsDeny").names(),
		Skills: p.at("skills").names(), Capabilities: p.at("capabilities").names(), Budget: im.budget(p.at("budget")),
	}
	d.Model, d.ModelParams = im.model(p.at("llmConfig"))
	d.Metadata = im.metadata(p.at("metadata"), "tasks")
	im.report.Tools = append(im.report.Tools, d.Tools...)
	d.Name = cmp.Or(d.Name, agentName.optional())
	im.rename(p.at("name"), &d)
	for _, problem := range d.Problems() {
		im.fail(p.at(problem.Field).path, "%s", problem.Message)
	}
	return d
}

var notName = regexp.MustCompile(`[^a-z0-9_-]+`)

// rename makes a valid name. The old one becomes the label, unless the agent has
// one.
func (im *importer) rename(p value, d *session.Definition) {
	name := strings.TrimLeft(notName.ReplaceAllString(strings.ToLower(d.Name), "-"), "-_")
	name = cmp.Or(strings.TrimRight(name[:min(len(name), 128)], "-"), "agent")
	if name == d.Name {
		return
	}
	im.report.Renamed = append(im.report.Renamed, foreign.Rename{Path: p.path, From: d.Name, To: name})
	if strings.TrimSpace(d.Label) == "" {
		d.Label = d.Name
	}
	d.Name = name
}

func (im *importer) budget(p value) *session.Budget {
	if p.v == nil {
		return nil
	}
	p.checkKeys("maxSteps", "maxTokens", "maxSeconds", "maxCost", "deadline")
	b := &session.Budget{
		MaxSteps: p.at("maxSteps").integer(), MaxTokens: p.at("maxTokens").integer(),
		MaxSeconds: p.at("maxSeconds").decimal(), Deadline: p.at("deadline").momentPtr(),
	}
	if dollars := p.at("maxCost").decimal(); dollars != nil {
		if *dollars < 0 || *dollars > 9e12 {
			im.fail(p.at("maxCost").path, "is not a number of dollars")
			return nil
		}
		cost := session.Dollars(*dollars)
		b.MaxCost = &cost
	}
	return b
}

// model reads the model and its parameters. Address, key and price are not
// imported: the importing program configures them.
func (im *importer) model(p value) (string, *session.ModelParams) {
	if name, ok := p.v.(string); ok {
		im.report.Models = append(im.report.Models, name)
		return name, nil
	}
	p.checkKeys("apiUrl", "apiKey", "endpoint", "queryParams", "metadata", "model", "maxTokens", "contextLength", "maxOutputLength", "driver", "options", "pricing")
	p.dropAt("apiUrl", "apiKey", "endpoint", "queryParams", "metadata", "contextLength", "maxOutputLength", "pricing")
	name, driver := p.at("model").optional(), p.at("driver").optional()
	switch {
	case name == "" && driver != "":
		im.note("%s names a driver and no model", p.path)
	case name != "" && driver != "":
		name = driver + "/" + name
	}
	im.report.Models = append(im.report.Models, name)
	return name, im.modelParams(p)
}

func (im *importer) modelParams(p value) *session.ModelParams {
	params := &session.ModelParams{Options: p.at("options").values()}
	if most := p.at("maxTokens").count(); most > 0 {
		n := int(most)
		params.MaxOutputTokens = &n
	}
	within := func(key string, high float64) *float64 {
		var f float64
		if raw, ok := params.Options[key]; !ok || json.Unmarshal(raw, &f) != nil || f < 0 || f > high || string(raw) == "null" {
			return nil // stays an option; the provider decides
		}
		delete(params.Options, key)
		return &f
	}
	params.Temperature = within("temperature", 2)
	params.TopP = within("top_p", 1)
	var stop []string
	if raw, ok := params.Options["stop"]; ok && string(raw) != "null" && json.Unmarshal(raw, &stop) == nil {
		params.Stop = stop
		delete(params.Options, "stop")
	}
	if params.MaxOutputTokens == nil && params.Temperature == nil && params.TopP == nil && len(params.Stop) == 0 && len(params.Options) == 0 {
		return nil
	}
	return params
}

// metadata reads a map. Keys that Holdfast uses itself get a prefix.
func (im *importer) metadata(p value, reserved ...string) session.Values {
	values := p.values()
	for _, key := range slices.Sorted(maps.Keys(values)) {
		if !strings.HasPrefix(key, "holdfast.") && !slices.Contains(reserved, key) {
			continue
		}
		to := "imported." + key
		if _, taken := values[to]; !taken {
			values[to] = values[key]
			im.report.Renamed = append(im.report.Renamed, foreign.Rename{Path: p.at(key).path, From: key, To: to})
		} else {
			p.at(key).drop()
		}
		delete(values, key)
	}
	return values
}

func (im *importer) state(p value, def session.Definition, created time.Time) session.State {
	p.checkKeys("agentId", "parentAgentId", "createdAt", "updatedAt", "llmConfig", "executionCount", "execution", "context")
	context := p.open("context", "metadata", "systemPrompt", "responseFormat", "messageStore")
	st := session.State{
		AgentID: p.at("agentId").optional(), ParentAgentID: p.at("parentAgentId").optional(),
		CreatedAt: p.at("createdAt").moment(), UpdatedAt: p.at("updatedAt").moment(),
		SystemPrompt: context.at("systemPrompt").optional(), ResponseFormat: im.responseFormat(context.at("responseFormat")),
		ExecutionCount: int(p.at("executionCount").count()),
	}
	if st.AgentID == "" && im.opts.AgentID == "" {
		im.fail(p.at("agentId").path, "is missing")
	}
	st.AgentID, st.CreatedAt = cmp.Or(st.AgentID, im.opts.AgentID), cmp.Or(st.CreatedAt, created)
	if model, params := im.model(p.at("llmConfig")); model != def.Model || !sameParams(params, def.ModelParams) {
		st.Model, st.ModelParams = model, params
	}
	st.Metadata = im.stateMetadata(context.at("metadata"))
	im.messageStore(context.at("messageStore"), &st)
	im.execution(p.at("execution"), &st)
	return st
}

// sameParams reports whether parameters need no override.
func sameParams(a, b *session.ModelParams) bool {
	x, errX := session.JSON(a)
	y, errY := session.JSON(b)
	return a == nil || errX == nil && errY == nil && string(x) == string(y)
}

// stateMetadata keeps a valid task list under its key.
func (im *importer) stateMetadata(p value) session.Values {
	if isTaskList(p.at("tasks")) {
		return im.metadata(p)
	}
	return im.metadata(p, "tasks")
}

func isTaskList(p value) bool {
	var items []session.TaskItem
	raw, err := json.Marshal(p.v)
	if err != nil || p.v == nil || json.Unmarshal(raw, &items) != nil {
		return false
	}
	return !slices.ContainsFunc(items, func(item session.TaskItem) bool {
		known := item.Status == session.TaskPending || item.Status == session.TaskInProgress || item.Status == session.TaskCompleted
		return !known || strings.TrimSpace(item.Content) == ""
	})
}

func (im *importer) responseFormat(p value) *session.ResponseFormat {
	if p.empty() {
		return nil
	}
	p.checkKeys("type", "schema", "name", "strict")
	f := &session.ResponseFormat{Type: p.at("type").optional(), Name: p.at("name").optional(), Strict: p.at("strict").boolean()}
	if schema := p.at("schema"); !schema.empty() {
		schema.v = schema.entries()
		f.Schema = schema.raw()
	}
	if strings.TrimSpace(f.Type) == "" {
		if f.Schema == nil {
			im.note("%s has neither type nor schema and was left out", p.path)
			return nil
		}
		f.Type = "json_schema"
	}
	return f
}
