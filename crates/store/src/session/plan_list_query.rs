//! The SQL of lists of plans. Each filter has an index in list order, so the cost of a page does not
//! depend on the number of plans. A second index includes the state, so counts are index-only scans.

use cleveragents_ports::PlanFilter;

use crate::value::Param;

/// The plans of projects, in the order of the rows of `plan_projects`.
const PROJECTS_WITH_PLANS: &str = "plan_projects JOIN plans ON plans.id = plan_projects.plan_id";

/// A filter as SQL. Only requested conditions are included, so that the planner can choose the
/// matching index.
pub(super) struct PlanListQuery {
    source: &'static str,
    /// The column of the plan's state, in the table that drives the query.
    state: &'static str,
    /// The order columns, from the table whose index has them.
    order: [&'static str; 2],
    conditions: Vec<String>,
    pub(super) params: Vec<Param<'static>>,
}

impl PlanListQuery {
    pub(super) fn new(filter: &PlanFilter) -> Self {
        let mut query = Self {
            source: "plans",
            state: "plans.state",
            order: ["plans.created_at", "plans.id"],
            conditions: Vec::new(),
            params: Vec::new(),
        };
        match filter.projects.as_slice() {
            [] => {}
            [project] => {
                query.source = PROJECTS_WITH_PLANS;
                query.state = "plan_projects.state";
                query.order = ["plan_projects.created_at", "plan_projects.plan_id"];
                query.add_equals("plan_projects.project", project.to_string());
            }
            // A join would return a plan once for each of its projects.
            several => {
                let marks: Vec<String> = several
                    .iter()
                    .map(|project| query.bind(Param::from(project.to_string())))
                    .collect();
                query.conditions.push(format!(
                    "plans.id IN (SELECT plan_id FROM plan_projects WHERE project IN ({}))",
                    marks.join(", ")
                ));
            }
        }
        if let Some(action) = &filter.action {
            query.add_equals("plans.action", action.to_string());
        }
        if let Some(phase) = filter.phase {
            query.add_equals("plans.phase", phase.to_string());
        }
        if let Some(state) = filter.state {
            query.add_equals(query.state, state.to_string());
        }
        query
    }

    fn add_equals(&mut self, column: &str, value: String) {
        let mark = self.bind(Param::from(value));
        self.conditions.push(format!("{column} = {mark}"));
    }

    /// Adds a parameter and returns its placeholder.
    fn bind(&mut self, param: Param<'static>) -> String {
        self.params.push(param);
        format!("?{}", self.params.len())
    }

    fn source_clause(&self, source: &str) -> String {
        let conditions = match self.conditions.as_slice() {
            [] => String::new(),
            some => format!("WHERE {}", some.join(" AND ")),
        };
        format!("FROM {source} {conditions}")
    }

    /// Counts by state. Conditions that the rows of `plan_projects` already answer are not repeated
    /// on `plans`, so the count is an index-only scan.
    pub(super) fn counts_sql(&self) -> String {
        let asks_plans = self.conditions.iter().any(|it| it.starts_with("plans."));
        let source = match self.source {
            PROJECTS_WITH_PLANS if !asks_plans => "plan_projects",
            source => source,
        };
        let (filtered, state) = (self.source_clause(source), self.state);
        format!("SELECT {state}, count(*) {filtered} GROUP BY {state}")
    }

    /// The page query; its own parameters follow those of the counts.
    pub(super) fn page_sql(&mut self, filter: &PlanFilter) -> String {
        let [time, id] = self.order;
        if let Some(before) = filter.before {
            let at = self.bind(Param::from(before.created_at));
            let plan = self.bind(Param::from(before.plan_id.to_string()));
            self.conditions
                .push(format!("({time}, {id}) < ({at}, {plan})"));
        }
        let filtered = self.source_clause(self.source);
        let limit = match filter.limit {
            Some(limit) => format!("LIMIT {}", self.bind(Param::from(i64::from(limit)))),
            None => String::new(),
        };
        format!(
            "SELECT plans.body, plans.version {filtered} ORDER BY {time} DESC, {id} DESC {limit}"
        )
    }
}
