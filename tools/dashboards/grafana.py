"""Boards in Grafana's format."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from grafana_foundation_sdk.builders import common, dashboard, heatmap, prometheus, stat, table, timeseries
from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.models import common as options
from grafana_foundation_sdk.models import dashboard as models
from grafana_foundation_sdk.models.prometheus import PromQueryFormat

from replicator.observe.catalogue import PREFIX
from tools.dashboards.model import Board, Event, Panel

__all__ = ["UID", "json_of"]

#: Prefix of the uids of all boards; links to them stay valid over upgrades.
UID = "rocketmq-replicator-"
_TAG = "rocketmq-replicator"
_SOURCE = models.DataSourceRef(type_val="prometheus", uid="${datasource}")
#: The metric with the values of each variable: one that each worker, or each connector, always has.
_VALUES = {
    "command": "job_queues",
    "source": "tasks",
    "target": 'tasks{source=~"$source"}',
    "connector": 'lag_messages{source=~"$source",target=~"$target"}',
    "topic": 'lag_messages{source=~"$source",target=~"$target",connector=~"$connector"}',
}
_HEIGHTS = {"stat": 5}
_Made: TypeAlias = stat.Panel | timeseries.Panel | heatmap.Panel | table.Panel


def json_of(board: Board) -> str:
    """The file to import or provision."""
    made = (
        dashboard.Dashboard(board.title)
        .uid(UID + board.name)
        .description(board.text)
        .tags([_TAG])
        .readonly()
        .refresh("30s")
        .time("now-1h", "now")
        .timezone("browser")
        .tooltip(models.DashboardCursorSync.CROSSHAIR)
        .link(_others())
        .with_variable(dashboard.DatasourceVariable("datasource").label("data source").type("prometheus"))
        .with_variable(_docs())
    )
    for event in board.events:
        made = made.annotation(_event(event))
    for name in board.variables:
        made = made.with_variable(_variable(name))
    number = 0
    for row in board.rows:
        number += 1
        made = made.with_row(dashboard.Row(row.title).id(number))
        for panel in row.panels:
            number += 1
            made = made.with_panel(_panel(panel, number))
    return JSONEncoder(sort_keys=True, indent=2, ensure_ascii=False).encode(made.build()) + "\n"


def _others() -> dashboard.DashboardLink:
    """Links from each board to the others, which keep the selection."""
    link = dashboard.DashboardLink("Replicator").type(models.DashboardLinkType.DASHBOARDS).tags([_TAG])
    return link.include_vars(True).keep_time(True)


def _docs() -> dashboard.TextBoxVariable:
    """Where these pages are kept, which links to the runbook begin with."""
    told = "address of the directory that has docs/RUNBOOK.md, which links begin with"
    return dashboard.TextBoxVariable("docs").label("docs at").description(told).default_value("")


def _event(event: Event) -> dashboard.AnnotationQuery:
    query = dashboard.AnnotationQuery().name(event.title).datasource(_SOURCE).enable(True)
    return query.icon_color(event.colour).expr(event.expression)


def _links(panel: Panel) -> list[dashboard.DashboardLink]:
    """To the chapters of the runbook, and to the board that shows more."""
    found = [
        dashboard.DashboardLink(f"Runbook: {name}").url(f"${{docs}}/docs/RUNBOOK.md#replicator{name.lower()}")
        for name in panel.alerts
    ]
    if panel.board:
        kept = "${source:queryparam}&${target:queryparam}&${__url_time_range}"
        found.append(dashboard.DashboardLink(f"Board: {panel.board}").url(f"/d/{UID}{panel.board}?{kept}"))
    return [link.type(models.DashboardLinkType.LINK) for link in found]


def _variable(name: str) -> dashboard.QueryVariable:
    return (
        dashboard.QueryVariable(name)
        .label(name)
        .datasource(_SOURCE)
        .query(f"label_values({PREFIX}{_VALUES[name]}, {name})")
        .refresh(models.VariableRefresh.ON_TIME_RANGE_CHANGED)
        .sort(models.VariableSort.ALPHABETICAL_ASC)
        .multi(True)
        .include_all(True)
        .all_value(".*")
        .current(models.VariableOption(selected=True, text="All", value="$__all"))
    )


def _panel(panel: Panel, number: int) -> _Made:
    made = _KINDS[panel.kind](panel)
    made = made.id(number).title(panel.title).description(panel.text).datasource(_SOURCE)
    made = made.span(panel.width).height(_HEIGHTS.get(panel.kind, 8)).unit(panel.unit)
    made = made.no_value(panel.empty or "no data").links(list(_links(panel)))
    for letter, (legend, expression) in zip("ABCD", panel.queries.items(), strict=False):
        query = prometheus.Dataquery().ref_id(letter).datasource(_SOURCE).expr(expression).legend_format(legend)
        if panel.kind == "table":
            query = query.instant().format(PromQueryFormat.TABLE)
        elif panel.kind == "stat":
            query = query.instant()  # a range query would show the last value of a worker that is gone
        elif panel.kind == "heat":
            query = query.range().format(PromQueryFormat.HEATMAP)
        else:
            query = query.range()
        made = made.with_target(query)
    return made


def _stat(panel: Panel) -> stat.Panel:
    made = (
        stat.Panel()
        .reduce_options(common.ReduceDataOptions().calcs(["lastNotNull"]))
        .color_mode(
            options.BigValueColorMode.BACKGROUND if panel.bad is not None else options.BigValueColorMode.NONE
        )
        .graph_mode(options.BigValueGraphMode.NONE)
        .text_mode(options.BigValueTextMode.VALUE_AND_NAME)
        .thresholds(_thresholds(panel))
    )
    if panel.words:
        words = {value: models.ValueMappingResult(text=text) for value, text in panel.words.items()}
        made = made.mappings([models.ValueMap(options=words)])
    return made


def _thresholds(panel: Panel) -> dashboard.ThresholdsConfig:
    """Yellow from `warn` and red from `bad` on; red below it if less is worse."""
    below, above = ("red", "green") if panel.low else ("green", "red")
    steps = [models.Threshold(value=None, color=below)]
    if panel.warn is not None:
        steps.append(models.Threshold(value=panel.warn, color="yellow"))
    if panel.bad is not None:
        steps.append(models.Threshold(value=panel.bad, color=above))
    return dashboard.ThresholdsConfig().mode(models.ThresholdsMode.ABSOLUTE).steps(steps)


def _lines(panel: Panel) -> timeseries.Panel:
    legend = (
        common.VizLegendOptions()
        .display_mode(options.LegendDisplayMode.TABLE)
        .placement(options.LegendPlacement.BOTTOM)
        .show_legend(True)
        .calcs(["lastNotNull", "max"])
    )
    tooltip = common.VizTooltipOptions().mode(options.TooltipDisplayMode.MULTI).sort(options.SortOrder.DESCENDING)
    made = timeseries.Panel().legend(legend).tooltip(tooltip).min(0).fill_opacity(10)
    if panel.bad is not None:
        dashed = common.GraphThresholdsStyleConfig().mode(options.GraphThresholdsStyleMode.DASHED)
        made = made.thresholds(_thresholds(panel)).thresholds_style(dashed)
    if panel.kind == "stack":
        made = made.stacking(common.StackingConfig().mode(options.StackingMode.NORMAL)).fill_opacity(60)
    return made


def _heat(panel: Panel) -> heatmap.Panel:
    return heatmap.Panel().calculate(False).y_axis(heatmap.YAxisConfig().unit(panel.unit))


def _table(_: Panel) -> table.Panel:
    return table.Panel()


_KINDS: dict[str, Callable[[Panel], _Made]] = {
    "stat": _stat,
    "lines": _lines,
    "stack": _lines,
    "heat": _heat,
    "table": _table,
}
