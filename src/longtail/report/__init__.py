"""Tables, charts, the HTML report and model cards.

Start reading at `page.py`: `render` puts the sections of the report together.

    page.py                    the HTML report; assets/ holds its CSS and JavaScript
    result.py                  `Result`: the measures, predictions and cost of one recipe
    findings.py                which labels are found and which never
    example_documents.py       test documents to show
    headline.py                the sentence at the top: the trade-off to choose
    result_table.py            the table of results; sections.py: charts of head and tail, trade-off, cost
    versus.py                  what one recipe finds that another does not
    how_to_repeat.py           the data, the command, definitions
    norms_chart.py, teachers.py, calibration_chart.py, dial_chart.py    sections that only some recipes have
    more_measures.py           the table of every measure at every k
    comparison_table.py        the comparison for a terminal
    figures.py, shapes.py      charts as SVG, and the marks they are made of; download.py: their data as CSV
    never_found.py             the section on labels that are never predicted
    zipf.py, links.py          charts of the tail and of a label's neighbours
    card.py, card_text.py, card_picture.py, card_encoder.py    the model card

Draws with `longtail.drawing`. May import everything but serve, export and cli.
"""
