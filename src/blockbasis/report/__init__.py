"""Figures of measurements, models and factorizations, and the one-page HTML report."""

from blockbasis.report.page import DataTable as DataTable
from blockbasis.report.page import Page as Page
from blockbasis.report.page import Section as Section
from blockbasis.report.page import render_page as render_page
from blockbasis.report.page import write_page as write_page
from blockbasis.report.pages import factorization_page as factorization_page
from blockbasis.report.pages import model_page as model_page
