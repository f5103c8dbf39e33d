package spec

import (
	"errors"
	"math"
	"net/url"
	"regexp"

	"github.com/holdfast-dev/holdfast/internal/document"
)

var (
	identifier = regexp.MustCompile(`^[A-Za-z0-9._:-]+$`)
	tag        = regexp.MustCompile(`^[a-z0-9][a-z0-9._-]*$`)
	toolName   = regexp.MustCompile(`^[A-Za-z0-9_-]+$`)
)

// specField reads a whole spec whose agents are resolved.
func specField(s *Spec, allowed func(baseURL string) error) field {
	return keys(
		must("version", oneKindOf(&s.Version, "an integer or a string", document.Integer, document.String)),
		must("name", filled(&s.Name)),
		may("description", str(&s.Description)),
		may("tags", unique(&s.Tags, document.Like(tag))),
		may("metadata", document.Ptr(&s.Metadata, metadataField)),
		must("runtime", runtimeField(&s.Runtime)),
		may("inputs", inputsField(&s.Inputs)),
		may("env", environmentField(&s.Env)),
		may("telemetry", document.Ptr(&s.Telemetry, telemetryField)),
		may("context_policy", document.Ptr(&s.Context, contextField)),
		may("skills", document.ListOf(&s.Skills, skillField)),
		may("tools", toolsField(&s.Tools, allowed)),
		must("agents", someOf(&s.Agents, agentField)),
		must("pattern", patternField(&s.Pattern)),
		may("outputs", outputsField(&s.Outputs)),
		may("security", securityField(&s.Security)),
	)
}

func metadataField(m *Metadata) field {
	return keys(
		may("name", str(&m.Name)),
		may("description", str(&m.Description)),
		may("labels", mapOf(&m.Labels, str)),
	)
}

func runtimeField(rt *Runtime) field {
	return keys(
		must("provider", filled(&rt.Provider)),
		may("model_id", filled(&rt.ModelID)),
		may("region", filled(&rt.Region)),
		may("host", document.Checked(&rt.Host, absoluteURL)),
		may("space_id", str(&rt.SpaceID)),
		may("temperature", document.Ptr(&rt.Temperature, upTo(2))),
		may("top_p", document.Ptr(&rt.TopP, upTo(1))),
		may("max_tokens", document.Ptr(&rt.MaxTokens, atLeast(1))),
		may("max_parallel", document.Ptr(&rt.MaxParallel, atLeast(1))),
		may("budgets", document.Ptr(&rt.Budgets, budgetsField)),
		may("failure_policy", document.Ptr(&rt.FailurePolicy, failureField)),
	)
}

func absoluteURL(s string) error {
	if u, err := url.Parse(s); err != nil || u.Scheme == "" || u.Host == "" {
		return errors.New("is not a URI with a scheme and a host")
	}
	return nil
}

func budgetsField(b *Budgets) field {
	return keys(
		may("max_steps", document.Ptr(&b.MaxSteps, atLeast(1))),
		may("max_tokens", document.Ptr(&b.MaxTokens, atLeast(1))),
		may("max_duration_s", document.Ptr(&b.MaxDurationS, atLeast(1))),
		may("warn_threshold", document.Ptr(&b.WarnThreshold, upTo(1))),
	)
}

func failureField(f *FailurePolicy) field {
	return func(v value) {
		keys(
			may("retries", document.Ptr(&f.Retries, atLeast(0))),
			may("backoff", document.Ptr(&f.Backoff, document.OneOf(Constant, Exponential, Jittered))),
			may("wait_min", document.Ptr(&f.WaitMin, upTo(math.MaxInt32))),
			may("wait_max", document.Ptr(&f.WaitMax, upTo(math.MaxInt32))),
		)(v)
		if retry := f.Retry(); retry.WaitMin > retry.WaitMax {
			v.Problem("waits %v s at least and %v s at most", retry.WaitMin, retry.WaitMax)
		}
	}
}

func inferenceField(i *Inference) field {
	return keys(
		may("temperature", document.Ptr(&i.Temperature, upTo(2))),
		may("top_p", document.Ptr(&i.TopP, upTo(1))),
		may("max_tokens", document.Ptr(&i.MaxTokens, atLeast(1))),
	)
}

func inputsField(i *Inputs) field {
	return keys(
		may("required", mapOf(&i.Required, varField)),
		may("optional", mapOf(&i.Optional, varField)),
		may("values", mapOf(&i.Values, scalar)),
	)
}

func environmentField(e *Environment) field {
	return keys(
		may("secrets", document.ListOf(&e.Secrets, func(s *Secret) field {
			return keys(
				must("key", document.Like(identifier)(&s.Key)),
				must("source", document.OneOf("env", "secrets_manager", "ssm", "file")(&s.Source)),
				may("name", str(&s.Name)),
				may("path", str(&s.Path)),
			)
		})),
		may("mounts", mapOf(&e.Mounts, str)),
	)
}

func telemetryField(t *Telemetry) field {
	t.Redact = Redact{ToolInputs: true}
	return keys(
		may("otel", document.Ptr(&t.OTel, func(o *OTel) field {
			o.SampleRatio = 1
			return keys(
				may("endpoint", str(&o.Endpoint)),
				may("service_name", str(&o.ServiceName)),
				may("sample_ratio", upTo(1)(&o.SampleRatio)),
			)
		})),
		may("redact", keys(
			may("tool_inputs", document.Flag(&t.Redact.ToolInputs)),
			may("tool_outputs", document.Flag(&t.Redact.ToolOutputs)),
		)),
	)
}

func contextField(c *ContextPolicy) field {
	return keys(
		may("compaction", document.Ptr(&c.Compaction, func(c *Compaction) field {
			*c = Compaction{Enabled: true, WhenTokensOver: 60_000, SummaryRatio: 0.35, PreserveRecentMessages: 12}
			return keys(
				may("enabled", document.Flag(&c.Enabled)),
				may("when_tokens_over", atLeast(1000)(&c.WhenTokensOver)),
				may("summary_ratio", upTo(1)(&c.SummaryRatio)),
				may("preserve_recent_messages", atLeast(1)(&c.PreserveRecentMessages)),
				may("summarization_model", filled(&c.SummarizationModel)),
			)
		})),
		may("notes", document.Ptr(&c.Notes, func(n *Notes) field {
			n.IncludeLast, n.Format = 12, "markdown"
			return keys(
				must("file", filled(&n.File)),
				may("include_last", atLeast(1)(&n.IncludeLast)),
				may("format", document.OneOf("markdown", "json")(&n.Format)),
			)
		})),
		may("retrieval", document.Ptr(&c.Retrieval, func(r *Retrieval) field {
			return keys(
				may("jit_tools", document.ListOf(&r.JITTools, document.Like(toolName))),
				may("mcp_servers", document.ListOf(&r.MCPServers, document.Like(toolName))),
			)
		})),
	)
}

func skillField(s *Skill) field {
	return keys(
		must("id", document.Like(identifier)(&s.ID)),
		must("path", filled(&s.Path)),
		may("description", str(&s.Description)),
		may("preload_metadata", document.Flag(&s.PreloadMetadata)),
	)
}

func toolsField(t *Tools, allowed func(baseURL string) error) field {
	return keys(
		may("python", document.ListOf(&t.Python, pythonField)),
		may("http_executors", document.ListOf(&t.HTTPExecutors, func(e *HTTPExecutor) field { return executorField(e, allowed) })),
		may("mcp", document.ListOf(&t.MCP, serverField)),
	)
}

func executorField(e *HTTPExecutor, allowed func(baseURL string) error) field {
	e.TimeoutMS = 30_000
	return keys(
		must("id", filled(&e.ID)),
		must("base_url", document.Checked(&e.BaseURL, allowed)),
		may("headers", mapOf(&e.Headers, str)),
		may("timeout_ms", atLeast(1)(&e.TimeoutMS)),
		may("description", str(&e.Description)),
		may("examples", examplesField(&e.Examples)),
		may("common_endpoints", document.ListOf(&e.CommonEndpoints, func(e *Endpoint) field {
			return keys(
				must("path", filled(&e.Path)),
				must("description", str(&e.Description)),
				may("method", filled(&e.Method)),
			)
		})),
		may("response_format", str(&e.ResponseFormat)),
		may("authentication_info", str(&e.AuthenticationInfo)),
	)
}

// serverField takes a server to start or one to reach, by the key it has.
func serverField(m *MCPServer) field {
	return func(v value) {
		if v.Get("url") != nil {
			keys(
				must("id", filled(&m.ID)),
				must("url", document.Checked(&m.URL, absoluteURL)),
				may("headers", mapOf(&m.Headers, str)),
			)(v)
			return
		}
		keys(
			must("id", filled(&m.ID)),
			must("command", filled(&m.Command)),
			may("args", document.ListOf(&m.Args, str)),
			may("env", mapOf(&m.Env, str)),
		)(v)
	}
}

func agentField(a *Agent) field {
	return func(v value) {
		if refOf(v.Node) != "" {
			return // resolve said why it is still there
		}
		keys(
			must("prompt", str(&a.Prompt)),
			may("tools", kept(&a.Tools)),
			may("provider", filled(&a.Provider)),
			may("model_id", filled(&a.ModelID)),
			may("inference", document.Ptr(&a.Inference, inferenceField)),
			may("input_schema", document.Ptr(&a.InputSchema, schemaField)),
			may("output_schema", document.Ptr(&a.OutputSchema, schemaField)),
		)(v)
	}
}

func outputsField(o *Outputs) field {
	return keys(may("artifacts", document.ListOf(&o.Artifacts, func(a *Artifact) field {
		return keys(must("path", filled(&a.Path)), must("from", str(&a.From)))
	})))
}

func securityField(s *Security) field {
	return keys(may("guardrails", document.Ptr(&s.Guardrails, func(g *Guardrails) field {
		return keys(
			may("deny_network", document.Flag(&g.DenyNetwork)),
			may("pii_redaction", document.Flag(&g.PIIRedaction)),
			may("allow_tools", kept(&g.AllowTools)),
		)
	})))
}
